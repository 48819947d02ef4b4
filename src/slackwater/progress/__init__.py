"""How far time has come: instants, punctuations, frontiers and clocks."""
