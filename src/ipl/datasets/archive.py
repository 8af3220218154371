"""Unpacks a downloaded archive, which can write nowhere but into its folder."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from ipl.support.errors import DataError, IplError
from ipl.support.files import is_folder, path_exists
from ipl.support.progress import SILENT, Advance, Reporter

KINDS = "zip, tar, tar.gz or tgz (or another compressed tar)"
PIECE = 1 << 20
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)
COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\x00": lzma}


def unpack(archive: str | Path, folder: str | Path, reporter: Reporter = SILENT) -> list[Path]:
    """Unpack an archive as a whole or not at all; existing files are never overwritten.

    Parameters
    ----------
    archive : str or Path
        A zip file, or a tar file that may be compressed.
    folder : str or Path
        The folder to unpack into; it is created if necessary.
    reporter : Reporter, optional
        Shows progress.

    Returns
    -------
    list of Path
        The files and folders that were created in `folder`.

    Raises
    ------
    DataError
        If the archive is damaged, would overwrite something, contains an absolute path, a path or
        link that leaves the folder, or a device, or does not fit on the disk.
    IplError
        If the folder cannot be written.
    """
    archive, folder = Path(archive), Path(folder)
    kind = _kind(archive)
    with _work_folder(folder) as work:
        room = shutil.disk_usage(work).free
        out = _Target(archive, work, folder, room)
        try:
            (_unpack_zip if kind == "zip" else _unpack_tar)(archive, out, reporter)
        except DAMAGE as error:
            raise DataError(f"{archive} is damaged: {error}.") from None
        except (RuntimeError, NotImplementedError) as error:  # a password, an unknown compression
            raise DataError(f"{archive} cannot be unpacked: {error}.") from None
        except OSError as error:
            if error.errno is None:  # from a decompressor, not from the system
                raise DataError(f"{archive} is damaged: {error}.") from None
            raise IplError(f"Cannot unpack into {folder}: {error.strerror}.") from None
        out.link()
        return _move(work, folder)


class _Target:
    """The folder that an archive is unpacked into; it checks every path."""

    def __init__(self, archive: Path, work: Path, folder: Path, room: int) -> None:
        self.archive, self.work, self.folder, self.room = archive, work, folder, room
        self.tops: set[str] = set()  # names that will be created in the folder
        self.links: dict[Path, str] = {}
        self.files: set[Path] = set()

    def path(self, name: str) -> Path | None:
        """Returns the path of a member; None for the folder itself."""
        pure = PurePosixPath(name.replace("\\", "/"))
        outside = pure.is_absolute() or PureWindowsPath(name).drive or ".." in pure.parts
        if outside or "\0" in name:
            raise DataError(f"{self.archive} is refused: {name!r} would leave the folder.")
        path = self.work.joinpath(*pure.parts)
        if self.links and any(step in self.links for step in (path, *path.parents)):
            raise DataError(f"{self.archive} is refused: {name!r} would go through a link.")
        if pure.parts and pure.parts[0] not in self.tops:
            _check_free(self.folder / pure.parts[0])
            self.tops.add(pure.parts[0])
        return path if pure.parts else None

    def make_folder(self, name: str) -> None:
        """Creates a folder, if it does not exist yet."""
        if path := self.path(name):
            self._make(path, name)

    def write(self, name: str, source: IO[bytes] | None, size: int, advance: Advance) -> None:
        """Writes a file of exactly the stated size."""
        path = self.path(name)
        if path is None or source is None:
            raise DataError(f"{self.archive} is damaged: {name!r} is not a file.")
        self.take_room(size)
        self._make(path.parent, name)
        if os.path.lexists(path):
            raise DataError(f"{self.archive} is refused: it contains {name!r} twice.")
        with open(path, "xb") as file:
            remaining = size
            while piece := source.read(PIECE):
                remaining -= len(piece)
                if remaining < 0:
                    raise DataError(f"{self.archive} is refused: {name!r} is larger than stated.")
                file.write(piece)
                advance(len(piece))
        if remaining:
            raise DataError(f"{self.archive} is damaged: {name!r} is truncated.")
        self.files.add(path)

    def take_room(self, size: int) -> None:
        """Reserves disk space; raises DataError if there is not enough."""
        self.room -= size
        if self.room < 0:
            raise DataError(f"{self.archive} is refused: there is not enough disk space for it.")

    def hard_link(self, name: str, target: str) -> None:
        """Gives a file that was unpacked before a second name."""
        path, source = self.path(name), self.path(target)
        if path is None or source not in self.files or os.path.lexists(path):
            raise DataError(
                f"{self.archive} is refused: the link {name!r} points to no file in it."
            )
        self._make(path.parent, name)
        os.link(source, path)
        self.files.add(path)

    def link_later(self, name: str, target: str) -> None:
        """Notes a symbolic link; links are created last, so that nothing is written through one."""
        if path := self.path(name):
            self._make(path.parent, name)
            self.links[path] = target

    def link(self) -> None:
        """Creates the links; raises DataError if one does not point to something in the folder."""
        for path, target in self.links.items():
            if os.path.lexists(path):
                raise DataError(f"{self.archive} is refused: it contains {path.name!r} twice.")
            os.symlink(target, path)
        inside = self.work.resolve()
        for path, target in self.links.items():
            try:
                end = path.resolve(strict=True)
            except (OSError, RuntimeError):  # points to nothing, or to itself
                end = Path(os.sep)
            if os.path.isabs(target) or not end.is_relative_to(inside):
                link = f"{path.name!r} -> {target!r}"
                raise DataError(f"{self.archive} is refused: the link {link} leaves the folder.")

    def _make(self, path: Path, name: str) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise DataError(f"{self.archive} is refused: {name!r} is below a file.") from None


def _unpack_zip(archive: Path, out: _Target, reporter: Reporter) -> None:
    with zipfile.ZipFile(archive) as zipped:
        members = zipped.infolist()
        total = sum(member.file_size for member in members)
        if total > out.room:
            raise DataError(f"{archive} is refused: there is not enough disk space for it.")
        with reporter.task(f"Unpacking {archive.name}", total) as advance:
            for member in members:
                mode = stat.S_IFMT(member.external_attr >> 16)
                if member.is_dir():
                    out.make_folder(member.filename)
                elif stat.S_ISLNK(mode):
                    with zipped.open(member) as file:
                        out.link_later(member.filename, os.fsdecode(file.read(PIECE)))
                elif mode not in (0, stat.S_IFREG):
                    raise DataError(f"{archive} is refused: {member.filename!r} is a device.")
                else:
                    with zipped.open(member) as file:
                        out.write(member.filename, file, member.file_size, advance)


class _Member(tarfile.TarInfo):
    """A member whose header must be intact; tarfile takes a damaged one for the end."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _Member:
        """Returns the next member; raises ReadError for a header that is damaged."""
        try:
            return super().fromtarfile(tarfile_)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from None


def _decompressed(raw: IO[bytes]) -> IO[bytes]:
    """Returns the tar inside a file; unlike tarfile's own, these streams verify checksums."""
    start = raw.read(8)
    raw.seek(0)
    kind = next((kind for mark, kind in COMPRESSED.items() if start.startswith(mark)), None)
    return raw if kind is None else kind.open(raw)


def _unpack_tar(archive: Path, out: _Target, reporter: Reporter) -> None:
    with (
        open(archive, "rb") as raw,
        reporter.task(f"Unpacking {archive.name}", archive.stat().st_size) as advance,
        _decompressed(raw) as stream,
        tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as tarred,
    ):
        reported = 0

        def report(_: int) -> None:  # progress is the part of the archive that has been read
            nonlocal reported
            advance(raw.tell() - reported)
            reported = raw.tell()

        for member in tarred:
            if member.isdir():
                out.make_folder(member.name)
            elif member.issym():
                out.link_later(member.name, member.linkname)
            elif member.islnk():
                out.hard_link(member.name, member.linkname)
            elif member.isreg():
                out.write(member.name, tarred.extractfile(member), member.size, report)
            else:
                raise DataError(f"{archive} is refused: {member.name!r} is a device.")
        while stream.read(PIECE):  # to the end, where its checksum is verified
            pass


def _kind(archive: Path) -> str:
    if not path_exists(archive):
        raise DataError(f"No such file: {archive}.")
    if zipfile.is_zipfile(archive):
        return "zip"
    try:
        with (
            open(archive, "rb") as raw,
            _decompressed(raw) as stream,
            tarfile.open(fileobj=stream, mode="r|"),
        ):
            return "tar"
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"Cannot read {archive}: {error.strerror}.") from None
        raise DataError(f"{archive} is damaged or not an archive ({KINDS}).") from None


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """Yields a hidden folder on the same disk, which is removed afterwards in any case."""
    if path_exists(folder) and not is_folder(folder):
        raise DataError(f"{folder} is a file, not a folder to unpack into.")
    parent = folder.resolve()
    while not parent.exists():
        parent = parent.parent
    try:
        work = Path(tempfile.mkdtemp(prefix=".unpacking.", dir=parent))
    except OSError as error:
        raise IplError(f"Cannot write in {parent}: {error.strerror}.") from None
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_free(path: Path) -> None:
    if os.path.lexists(path):
        raise DataError(f"{path} already exists; nothing is overwritten.")


def _move(work: Path, folder: Path) -> list[Path]:
    """Moves everything from one folder to another where none of it exists, or nothing."""
    names = sorted(os.listdir(work))
    if not names:
        raise DataError("The archive is empty.")
    for name in names:
        _check_free(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    moved: list[Path] = []
    try:
        for name in names:
            os.rename(work / name, folder / name)
            moved.append(folder / name)
    except BaseException:
        for path in moved:
            os.rename(path, work / path.name)
        raise
    return moved
