"""Programs and packages needed for benchmarks only; installed in `bench/out`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

OUT = Path(__file__).parent / "out"
PEERS = ("reader==3.26", "sgmllib3k", "wreq", "py-spy")
_PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_DEBIAN = OUT / "debian"
_PACKAGES: Mapping[str, Sequence[str]] = {"nginx": ("nginx",), "wrk": ("wrk", "libluajit-5.1-2")}


def program(name: str) -> str | None:
    """The path of a program, installed or unpacked from its Debian package; else None."""
    found = shutil.which(name, path=_PLACES) or _unpacked(name)
    if found is None and _fetch(_PACKAGES[name]):
        found = _unpacked(name)
    return found


def peers_python() -> Path:
    """The interpreter of an environment with the other programs, created at the first call."""
    folder = OUT / "peers"
    # for the same interpreter: the comparison must not depend on how Python was built
    stamp, wanted = folder / "installed", " ".join([sys.base_prefix, sys.version, *PEERS])
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*install, *PEERS], check=True, stderr=subprocess.DEVNULL)
        stamp.write_text(wanted)
    return folder / "bin" / "python"


def library_path() -> str:
    """The library path of unpacked programs."""
    return ":".join(str(path) for path in _DEBIAN.glob("usr/lib/*-linux-*"))


def _unpacked(name: str) -> str | None:
    return next((str(path) for path in _DEBIAN.glob(f"usr/*bin/{name}")), None)


def _fetch(packages: Sequence[str]) -> bool:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return False
    _DEBIAN.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run(["apt-get", "-qq", "download", *packages], cwd=_DEBIAN, check=False,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    for package in _DEBIAN.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(_DEBIAN)], check=True)
    return fetched.returncode == 0
