#!/usr/bin/env python3
"""Fetches the default essay text of the NIAH tasks into the user's cache.

The six Austen novels of Debian's package r-cran-janeaustenr (text: public domain; package: MIT) are read from the
package's files, white space is folded to single spaces, and ${XDG_CACHE_HOME:-~/.cache}/hydrahead/austen.txt is
written. Needs apt-get and dpkg-deb; nothing is installed. `--deb FILE` reads a package that is already there.
"""
import argparse
import hashlib
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

PACKAGE = "r-cran-janeaustenr"
# The novels in alphabetical order of their names in the package.
NOVELS = ("emma", "mansfieldpark", "northangerabbey", "persuasion", "prideprejudice", "sensesensibility")
SHA256 = "11830715dbdc5560b92b5a0979bb38d2c1604784bd4b076b3c4302dad6a6b04f"


class XdrReader:
    """The part of R's serialisation (version 3, XDR) that lists, strings and integers need."""

    def __init__(self, data):
        if data[:2] != b"X\n":
            sys.exit("fetch_essay: not an R serialisation in XDR form")
        self.data, self.at, self.symbols = data, 2, []
        version = self.integer()
        self.at += 8  # versions of the writer and of the oldest reader
        if version == 3:
            length = self.integer()
            self.at += length  # the native encoding's name
        elif version != 2:
            sys.exit(f"fetch_essay: R serialisation version {version}; expected 2 or 3")

    def integer(self):
        (value,) = struct.unpack_from(">i", self.data, self.at)
        self.at += 4
        return value

    def value(self):
        flags = self.integer()
        kind = flags & 0xFF
        if kind == 9:  # CHARSXP
            length = self.integer()
            if length < 0:
                return None
            self.at += length
            return self.data[self.at - length : self.at].decode("utf-8")
        if kind == 16:  # STRSXP
            result = [self.value() for _ in range(self.integer())]
        elif kind in (10, 13):  # LGLSXP, INTSXP
            result = [self.integer() for _ in range(self.integer())]
        elif kind == 19:  # VECSXP
            result = [self.value() for _ in range(self.integer())]
        elif kind == 2:  # LISTSXP: attributes
            pairs = {}
            tag = self.value() if flags & 0x400 else ""
            pairs[tag] = self.value()
            rest = self.value()
            return {**pairs, **(rest or {})}
        elif kind == 1:  # SYMSXP
            name = self.value()
            self.symbols.append(name)
            return name
        elif kind == 0xFF:  # reference to a symbol
            return self.symbols[(flags >> 8) - 1]
        elif kind == 254:  # end of a list
            return None
        else:
            sys.exit(f"fetch_essay: R object type {kind} is not expected here")
        if flags & 0x200:  # attributes follow
            attributes = self.value()
            names = attributes.get("names")
            if names:
                return dict(zip(names, result))
        return result


def download(folder):
    subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    return next(pathlib.Path(folder).glob(PACKAGE + "_*.deb"))


def read_novels(deb, folder):
    subprocess.run(["dpkg-deb", "-x", str(deb), folder], check=True)
    data = pathlib.Path(folder, "usr/lib/R/site-library/janeaustenr/data")
    index = XdrReader(zlib.decompress((data / "Rdata.rdx").read_bytes(), wbits=31)).value()["variables"]
    records = (data / "Rdata.rdb").read_bytes()
    lines = []
    for novel in NOVELS:
        offset, length = index[novel]
        record = records[offset + 4 : offset + length]  # after the length of the unpacked record
        lines += XdrReader(zlib.decompress(record)).value()
    return " ".join(" ".join(lines).split())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deb", help="a downloaded package file instead of apt-get download")
    options = parser.parse_args()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hydrahead"
    target = cache / "austen.txt"
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == SHA256:
        print(f"{target} is up to date")
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            text = read_novels(options.deb or download(folder), folder).encode()
        except (OSError, subprocess.CalledProcessError, StopIteration) as error:
            sys.exit(f"fetch_essay: {PACKAGE} could not be read ({error}); "
                     "NIAH's essay tasks need another text: --haystack FILE")
    found = hashlib.sha256(text).hexdigest()
    if found != SHA256:
        sys.exit(f"fetch_essay: the folded text has sha256 {found}; expected {SHA256}")
    cache.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    temporary.write_bytes(text)
    temporary.replace(target)
    print(f"wrote {target} ({len(text):,} bytes)")


if __name__ == "__main__":
    main()
