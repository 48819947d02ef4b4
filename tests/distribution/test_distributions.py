"""What users install: the wheel and the source archive, built as a release is, and the wheel used in a new environment.

Nothing comes over a network. The environment has the library from the wheel, and besides it only what the wheel's own
metadata name, from the environment of these tests: what they forget is missing, as it would be for users.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from email.message import Message

_ROOT = Path(__file__).parents[2]
_NOT_COPIED = (".*", "build", "dist", "demo-output", "*.egg-info", "__pycache__")
"""What is not the project's: what tools and the demonstration leave behind, and files that begin with a dot."""

_PIPELINE = """
import sys
import slackwater as sw

rows = [{"at": at, "device": "ab"[at % 2]} for at in (1, 4, 3, 12, 9, 2, 15)]
counts = sw.stream(rows, time="at", name="readings").tumbling(10).sort(patience=5).group_by("device")
result = counts.aggregate(n=sw.count()).run()
print(sw.__file__)
print(result.table.to_pylist())
try:
    sw.parquet_files(None, "readings")
except sw.errors.PlanError as refusal:
    print(str(refusal).splitlines()[-1].strip())
print(sorted({"pandas", "pyspark"} & set(sys.modules)))
"""
_PRINTED = [
    str([
        {"window_start": 0, "window_end": 10, "device": "b", "n": 3},
        {"window_start": 0, "window_end": 10, "device": "a", "n": 2},
        {"window_start": 10, "window_end": 20, "device": "a", "n": 1},
        {"window_start": 10, "window_end": 20, "device": "b", "n": 1},
    ]),
    "hint: pip install 'slackwater[spark]'",
    "[]",
]  # fmt: skip


def _run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository, copied: nothing is built where it stands."""
    folder = tmp_path_factory.mktemp("tree") / "slackwater"
    shutil.copytree(_ROOT, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    return folder


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source archive, the wheel that is built from it, and the wheel that is built from the tree."""
    found: dict[str, Path] = {}
    for name, options in {"release": (), "tree": ("--wheel",)}.items():
        out = tmp_path_factory.mktemp(name)
        _run(sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", out, tree)
        found |= {f"{name} {path.suffix}": path for path in out.iterdir()}
    assert sorted(found) == ["release .gz", "release .whl", "tree .whl"]
    return found


@pytest.fixture(scope="module")
def metadata(built: dict[str, Path]) -> Message:
    """Those of the wheel."""
    with zipfile.ZipFile(built["release .whl"]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


@pytest.fixture(scope="module")
def environment(built: dict[str, Path], metadata: Message, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, and with what it needs without extras."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index",
         built["release .whl"])  # fmt: skip
    needed = folder / "needed"
    needed.mkdir()
    for name in _needed([Requirement(line) for line in metadata.get_all("Requires-Dist", [])]):
        _link(name, needed)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(f"{needed}\n")
    return folder


def _needed(requirements: list[Requirement]) -> set[str]:
    """What requirements name, and what that requires in turn, but for extras."""
    names: set[str] = set()
    todo = list(requirements)
    while todo:
        one = todo.pop()
        if (one.marker is None or one.marker.evaluate({"extra": ""})) and one.name.lower() not in names:
            names.add(one.name.lower())
            todo += [Requirement(line) for line in distribution(one.name).requires or []]
    return names


def _link(name: str, folder: Path) -> None:
    """Let a folder have what a distribution has in the environment of these tests."""
    found = distribution(name)
    tops = {file.parts[0] for file in found.files or [] if file.parts[0] not in ("..", "__pycache__")}
    assert tops, name
    for top in tops:
        (folder / top).symlink_to(Path(str(found.locate_file(top))))


def test_the_wheel_works_in_a_new_environment(environment: Path, tmp_path: Path) -> None:
    """With what its metadata name and nothing else: neither PySpark nor pandas is there."""
    python = environment / "bin" / "python"
    (tmp_path / "pipeline.py").write_text(_PIPELINE)
    where, *printed = _run(python, "-I", "-W", "error", tmp_path / "pipeline.py", cwd=tmp_path).splitlines()
    assert Path(where).is_relative_to(environment)
    assert printed == _PRINTED
    version = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert _run(environment / "bin" / "slackwater", "--version", cwd=tmp_path).strip() == version
    assert "No broken requirements" in _run(sys.executable, "-m", "pip", "--python", python, "check")


def test_the_wheel_is_the_same_from_the_source_archive_and_from_the_tree(built: dict[str, Path]) -> None:
    """File by file; and it has every module of the tree, with the mark that says that types are shipped."""
    contents = []
    for name in ("release .whl", "tree .whl"):
        with zipfile.ZipFile(built[name]) as wheel:
            contents.append({one: wheel.read(one) for one in wheel.namelist() if not one.endswith("/RECORD")})
    assert contents[0] == contents[1]
    source = _ROOT / "src"
    modules = {file.relative_to(source).as_posix() for file in (source / "slackwater").rglob("*.py")}
    packaged = {name for name in contents[0] if ".dist-info/" not in name}
    assert {name for name in packaged if name.endswith(".py")} == modules
    assert "slackwater/py.typed" in packaged
    others = {path for path in (source / "slackwater").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert packaged == {path.relative_to(source).as_posix() for path in others}


def test_the_source_archive_has_the_whole_repository(built: dict[str, Path], tree: Path) -> None:
    """Tests, documents and what makes them, as packagers want it; a new folder is not forgotten."""
    with tarfile.open(built["release .gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    here = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    made = {name for name in names | here if ".egg-info/" in name or name.startswith("build/")} | {
        "PKG-INFO",
        "setup.cfg",
    }
    assert sorted(here - made - names) == []
    assert sorted(names - made - here) == []


def test_metadata_are_complete(metadata: Message) -> None:
    """What a registry shows, and what installers go by."""
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    described = metadata.get_payload(decode=True)
    assert isinstance(described, bytes)
    assert described.decode() == readme
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert (metadata["License-Expression"], metadata.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    assert metadata["Requires-Python"] == ">=3.11"
    for field in ("Author", "Keywords", "Summary"):
        assert metadata[field], field
    classifiers = metadata.get_all("Classifier", [])
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(classifiers)
    assert not [one for one in classifiers if one.startswith("License ::")]  # the expression has taken their place


def test_pyspark_is_never_required_without_its_extra(metadata: Message) -> None:
    """Whoever has a cluster has its PySpark already; of what is accepted the least is what the code asks for."""
    requirements = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    spark = [one for one in requirements if one.name == "pyspark"]
    assert [str(one.marker) for one in spark] == ['extra == "spark"', 'extra == "connect"']
    assert {str(one.specifier) for one in spark} == {"<5,>=4.1"}
    core = {one.name for one in requirements if one.marker is None}
    assert core == {"cyclopts", "narwhals", "numba", "numpy", "pyarrow", "rich"}


def test_extras_that_messages_and_documents_name_are_there(metadata: Message) -> None:
    """Whoever reads such a hint can follow it; `all` has every one that users may want."""
    places = [*(_ROOT / "src").rglob("*.py"), *_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md")]
    texts = (path.read_text(encoding="utf-8") for path in places)
    named = {
        name
        for text in texts
        for some in re.findall(r"(?:slackwater|'\.)\[([\w,]+)\]", text)
        for name in some.split(",")
    }
    extras = set(metadata.get_all("Provides-Extra", []))
    assert {"delta", "duckdb", "nats", "postgres", "report", "spark"} <= named <= extras
    (everything,) = (line for line in metadata.get_all("Requires-Dist", []) if 'extra == "all"' in line)
    assert set(Requirement(everything).extras) == extras - {"all", "bench", "dev", "docs", "spark", "testing"}
