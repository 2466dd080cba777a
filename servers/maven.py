"""Java from Maven's artifacts: a project's own classes, compiled, and the jars that it depends on."""

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

from servers.process import Unavailable

LIMIT_SECONDS = 300
LINE = 300
DEPENDENCY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def classpath(project: Path) -> str:
    """The classes and jars of the folder with this `pom.xml`, as `java -cp` takes them; made once for these sources.

    Raises Unavailable without Maven, or if it cannot get an artifact.
    """
    if shutil.which("mvn") is None:
        raise Unavailable("Maven (`mvn`) is not installed")
    built = private(cache()) / f"{project.name}-{_digest(project)}"
    listed = built / "classpath"
    if not listed.exists() or not all(map(os.path.exists, listed.read_text().split(os.pathsep))):
        built.mkdir(parents=True, exist_ok=True)
        _build(project, built, listed)
    return os.pathsep.join([str(built / "classes"), listed.read_text()])


def cache() -> Path:
    """Where what was built is kept: in the user's own cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slicing-servers"


def private(folder: Path) -> Path:
    """The folder, made if it is not there; others must not be able to put classes there, which Java would run.

    Raises Unavailable if it belongs to somebody else, or others may write into it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise Unavailable(
            f"`{folder}` must be a directory that only its owner, who runs this, may write into. Remove it, or name "
            "another cache by `XDG_CACHE_HOME`."
        )
    return folder


def jars(project: Path) -> str:
    """The same without classes, between commas: what `spark.jars` takes."""
    return ",".join(classpath(project).split(os.pathsep)[1:])


def _digest(project: Path) -> str:
    sources = sorted(path for path in project.rglob("*") if path.name == "pom.xml" or path.suffix == ".java")
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def _build(project: Path, built: Path, listed: Path) -> None:
    command = ["mvn", "--quiet", "--batch-mode", "-Dstyle.color=never", f"--file={project / 'pom.xml'}"]
    goals = [f"-Dbuilt={built}", "compile", f"{DEPENDENCY}:build-classpath", f"-Dmdep.outputFile={listed}"]
    try:
        done = subprocess.run(command + goals, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"Maven did not answer within {LIMIT_SECONDS} seconds") from error
    if done.returncode:
        listed.unlink(missing_ok=True)
        raise Unavailable(f"Maven could not build `{project.name}`: {_first(done.stdout + done.stderr)}")


def _first(said: str) -> str:
    """The line that says what went wrong, as far as it can be read in a line."""
    return next((line for line in said.splitlines() if "ERROR" in line), "it says nothing")[:LINE]
