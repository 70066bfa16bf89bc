"""Files that are there whole or as they were: a table of hours of measuring is not lost to a full disk."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Writes beside the file, then to the disk, then renames."""
    target = Path(os.path.realpath(file))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".whole-", suffix=".part")
    try:
        with os.fdopen(handle, "w") as beside:
            beside.write(text)
            beside.flush()
            os.fsync(beside.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
