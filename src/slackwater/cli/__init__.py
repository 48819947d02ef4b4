"""The command line, `slackwater`: a file for each command, and one that calls them."""
