#!/usr/bin/env python3
"""user_cache.py: the folder in which Quire's scripts store fetched files, and checks that these files are unchanged.
  user_cache.py folder                     makes the folder and prints its path
  user_cache.py digest FOLDER              prints the SHA-256 of all files in FOLDER, with their names
  user_cache.py is FOLDER DIGEST_FILE      succeeds when DIGEST_FILE has that SHA-256
  user_cache.py unpack WHEELS LIST TARGET  unpacks the wheels in WHEELS, if LIST (requirements with hashes) names each
  user_cache.py same WHEELS LIST TARGET    succeeds when TARGET holds what these wheels hold, and nothing else

The folder is $QUIRE_CACHE, else quire in $XDG_CACHE_HOME, else .cache/quire in $HOME, else the same in the home that the system's list of
users has. Files in it are compiled and run. So the folder belongs to the user who runs this, only that user may write to it, and only that
user and root may put another folder in its place: the permissions of every folder and link on its path are checked. A folder of another
user, or one that others may write to, is refused."""
import hashlib
import os
import pwd
import re
import stat
import sys
import zipfile

MAX_LINKS = 40


def fail(text):
    sys.exit(f"the cache: {text}; set QUIRE_CACHE to a folder of your own")


def wanted():
    """Returns the folder's path, and whether the user named exactly this folder."""
    own = os.environ.get("QUIRE_CACHE")
    if own:
        return os.path.abspath(own), True
    base = os.environ.get("XDG_CACHE_HOME")
    if not base or not os.path.isabs(base):  # required by the XDG Base Directory Specification
        home = os.environ.get("HOME")
        if not home or not os.path.isabs(home):
            try:
                home = pwd.getpwuid(os.getuid()).pw_dir
            except KeyError:
                home = ""
        if not os.path.isabs(home):
            fail(f"HOME is not set, and the system knows no home of user {os.getuid()}")
        base = os.path.join(home, ".cache")
    return os.path.join(base, "quire"), False


def owner(status):
    try:
        return pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return f"user {status.st_uid}"


def check_step(path):
    """Checks a folder or a link on the way to the cache: only root and the user may replace its contents."""
    status = os.lstat(path)
    if status.st_uid not in (0, os.getuid()):
        fail(f"{path} belongs to {owner(status)}, who could put other files there")
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISDIR(status.st_mode) and others_write and not status.st_mode & stat.S_ISVTX:
        fail(f"{path} may be written by others")
    return status


def walk(path):
    """Makes the missing folders of a path, for the user alone, checks all folders on the way, and returns the path without links."""
    at, rest, links = "/", [part for part in path.split("/") if part], 0
    check_step(at)
    while rest:
        part = rest.pop(0)
        if part == "..":
            at = os.path.dirname(at)
            continue
        if part == ".":
            continue
        following = os.path.join(at, part)
        try:
            os.mkdir(following, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            fail(f"{following}: {error.strerror}")
        if not stat.S_ISLNK(check_step(following).st_mode):
            at = following
            continue
        links += 1
        if links > MAX_LINKS:
            fail(f"{path} leads through too many links")
        target = os.readlink(following)
        rest = [step for step in target.split("/") if step] + rest
        at = "/" if target.startswith("/") else at
    return at


def folder():
    path, is_own = wanted()
    path = walk(path)
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    status = os.fstat(opened)
    if status.st_uid != os.getuid():
        fail(f"{path} belongs to {owner(status)}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        fail(f"{path} may be written by others")
    if not is_own and stat.S_IMODE(status.st_mode) != 0o700:  # made by an earlier version
        os.fchmod(opened, 0o700)
    os.close(opened)
    return path


def files(top):
    """Returns the files below a folder by name, sorted. A link or a device is an error. Earlier versions left an empty file
    .complete, which is ignored."""
    found = []
    for path, folders, names in os.walk(top):
        for name in folders + names:
            full = os.path.join(path, name)
            mode = os.lstat(full).st_mode
            if stat.S_ISREG(mode):
                found.append(os.path.relpath(full, top))
            elif not stat.S_ISDIR(mode):
                sys.exit(f"{full}: neither a file nor a folder")
    marker = os.path.join(top, ".complete")
    return sorted(name for name in found if name != ".complete" or os.path.getsize(marker) > 0)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def digest(top):
    lines = "".join(f"{sha256(os.path.join(top, name))}  {name}\n" for name in files(top))
    return hashlib.sha256(lines.encode()).hexdigest()


def wheels(where, requirements):
    """Returns the wheels of a folder; each must have a pinned hash."""
    with open(requirements, encoding="utf-8") as file:
        pinned = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", file.read()))
    found = [os.path.join(where, name) for name in files(where)]
    strange = [path for path in found if not path.endswith(".whl") or sha256(path) not in pinned]
    if strange or not found:
        sys.exit(f"{(strange or [where])[0]}: no wheel that {requirements} names")
    return [zipfile.ZipFile(path) for path in found]


def members(where, requirements):
    """Returns the contents of the wheels: names and bytes."""
    for wheel in wheels(where, requirements):
        for name in wheel.namelist():
            if not name.endswith("/"):
                yield name, wheel.read(name)


def unpack(where, requirements, target):
    for wheel in wheels(where, requirements):
        wheel.extractall(target)


def is_same(where, requirements, target):
    rest = set(files(target))
    for name, content in members(where, requirements):
        if name not in rest:
            return False
        rest.remove(name)
        with open(os.path.join(target, name), "rb") as file:
            if file.read() != content:
                return False
    return not rest


def main():
    command, arguments = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    if command == "folder" and not arguments:
        print(folder())
    elif command == "digest" and len(arguments) == 1:
        print(digest(*arguments))
    elif command == "is" and len(arguments) == 2:
        with open(arguments[1], encoding="utf-8") as file:
            pinned = file.read().split()[:1]
        sys.exit(0 if os.path.isdir(arguments[0]) and [digest(arguments[0])] == pinned else 1)
    elif command == "unpack" and len(arguments) == 3:
        unpack(*arguments)
    elif command == "same" and len(arguments) == 3:
        sys.exit(0 if all(map(os.path.isdir, (arguments[0], arguments[2]))) and is_same(*arguments) else 1)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
