#!/usr/bin/env python3
"""Prints a line for each file of 800 lines or more, each C++ function of 80 lines or more (120 in kernel files) and each
Python function of 80 lines or more.

C++ functions are found by counting braces: a block whose head has parentheses, outside any other function.

usage: check_sizes.py [ROOT]      (default: the repository)
"""

import ast
import re

import breaches

FILE_LINES = 800
FUNCTION_LINES = 80
KERNEL_FUNCTION_LINES = 120
FOLDERS = ("src", "apps", "tests", "fuzz", "bench", "tools", "cmake")
CPP = (".h", ".cc", ".inc")

# Comments and literals, which may hold braces. Raw strings first.
NOISE = re.compile(
    r'R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'"
    r"|//(?:[^\n\\]|\\.)*"
    r"|/\*.*?\*/"
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def without_noise(text):
    """The text with comments, literals and preprocessor lines blanked, line breaks kept."""
    return NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def cpp_functions(text):
    """(name, first line, line count) of each function in C++ text."""
    clean = without_noise(text)
    stack = []  # kind of each open brace, or (name, first line) of a function
    head_start = 0
    for position, char in enumerate(clean):
        if char == "{":
            head = clean[head_start:position]
            stack.append(kind_of_block(stack, head, clean, head_start))
            head_start = position + 1
        elif char == "}":
            closed = stack.pop() if stack else "other"
            if isinstance(closed, tuple):
                line = clean.count("\n", 0, position) + 1
                yield closed[0], closed[1], line - closed[1] + 1
            head_start = position + 1
        elif char == ";":
            head_start = position + 1


def kind_of_block(stack, head, clean, head_start):
    if any(kind != "scope" for kind in stack):
        return "other"
    without_template = re.sub(r"^\s*template\s*<[^{]*?>\s*(?=\w)", "", head)
    before_parenthesis = without_template.split("(")[0]
    if SCOPE.search(before_parenthesis) and "(" not in without_template:
        return "scope"
    if "(" in head and not re.search(r"[^=!<>]=\s*$|=\s*\{*$", head) and not re.search(r"\w\s*=[^=]", before_parenthesis):
        label = re.match(r"(\s*(public|private|protected)\s*:)*\s*", head)
        names = re.findall(r"[\w:~]+", before_parenthesis)
        start = head_start + label.end()
        return (names[-1] if names else "?", clean.count("\n", 0, start) + 1)
    return "scope" if SCOPE.search(before_parenthesis) else "other"


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def files(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "testdata" not in path.parts and "__pycache__" not in path.parts:
                if path.suffix in CPP + (".py", ".cmake") or path.name == "CMakeLists.txt":
                    yield path


def is_kernel_file(relative):
    return relative.parts[:2] == ("src", "kernels")


def check_file(path, relative):
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines >= FILE_LINES:
        yield f"{relative}: {lines} lines; files stay under {FILE_LINES}"
    limit = KERNEL_FUNCTION_LINES if is_kernel_file(relative) else FUNCTION_LINES
    functions = ()
    if path.suffix in CPP:
        functions = cpp_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    for name, line, count in functions:
        if count >= limit:
            yield f"{relative}:{line}: {name} has {count} lines; functions here stay under {limit}"


def check(root):
    for path in files(root):
        yield from check_file(path, path.relative_to(root))


if __name__ == "__main__":
    breaches.main(check, "files or functions are too long", lambda root: f"sizes: {len(list(files(root)))} files, none too long")
