#!/usr/bin/env python3
"""Checks that every relative link in the project's Markdown leads to a file or folder, and every #part to a heading.

usage: check_links.py [ROOT]     (default: the repository)
Prints "FILE:LINE: what is wrong" for each broken link; exit status 1 when there is one, or no Markdown at all.
"""

import pathlib
import re
import sys
import urllib.parse

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?")
INLINE_CODE = re.compile(r"`[^`]*`")
EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
SKIPPED_FOLDERS = {"build", ".git", "haypile-quickstart"}


def prose(path):
    """(line number, line) outside fenced code."""
    fence = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.match(r" {0,3}(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence):
            fence = None
        elif fence is None:
            yield number, line


def anchors(path):
    """The ids that headings get: lower case, punctuation dropped, blanks to hyphens, repeats numbered."""
    found = set()
    for _, line in prose(path):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if not heading:
            continue
        text = LINK.sub(lambda link: link.group(0).split("]")[0].lstrip("!["), heading.group(1))
        base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        name, count = base, 0
        while name in found:
            count += 1
            name = f"{base}-{count}"
        found.add(name)
    return found


def problem(root, page, target):
    """Why a link is broken; None when it is not."""
    if EXTERNAL.match(target):
        return None
    name, _, part = urllib.parse.unquote(target).partition("#")
    if name.startswith("/"):
        return f"'{target}' is absolute; links are relative"
    file = (page.parent / name).resolve() if name else page
    if not file.is_relative_to(root):
        return f"'{target}' leads out of the repository"
    if not file.exists():
        return f"'{target}' does not exist"
    if part and file.suffix == ".md" and part not in anchors(file):
        return f"'{target}': no heading makes '#{part}'"
    return None


def pages(root):
    for path in sorted(root.rglob("*.md")):
        if not SKIPPED_FOLDERS & set(path.relative_to(root).parts):
            yield path


def check(root):
    """(number of pages, list of problems)"""
    problems, count = [], 0
    for page in pages(root):
        count += 1
        for number, line in prose(page):
            text = INLINE_CODE.sub("", line)
            for target in LINK.findall(text) + REFERENCE.findall(text):
                why = problem(root, page, target)
                if why:
                    problems.append(f"{page.relative_to(root)}:{number}: {why}")
    return count, problems


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    count, problems = check(root)
    print("\n".join(problems) if problems else f"links of {count} pages lead somewhere")
    sys.exit(1 if problems or count == 0 else 0)


if __name__ == "__main__":
    main()
