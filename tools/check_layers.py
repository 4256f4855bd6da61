#!/usr/bin/env python3
"""Holds the sources to the layers that CMake declares.

Reads `haypile_module(NAME DEPS ...)` of each src/*/CMakeLists.txt and every `#include "module/..."` below src/ and
apps/, and prints a line for each breach: an include of a module that is not in DEPS, an include that does not start with
a module, and a cycle. Applications may include every module.

usage: check_layers.py [ROOT]      (default: the repository)
"""

import re

import breaches

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
MODULE_CALL = re.compile(r"haypile_module\s*\(([^)]*)\)")
SECTIONS = {"WITHOUT", "DEPS", "LIBS"}


def parse_module(text):
    """(name, deps) of the haypile_module call in a CMakeLists.txt, or None."""
    call = MODULE_CALL.search(re.sub(r"#.*", "", text))
    if not call:
        return None
    words = call.group(1).split()
    deps, section = set(), None
    for word in words[1:]:
        if word in SECTIONS:
            section = word
        elif section == "DEPS":
            deps.add(word)
    return words[0], deps


def read_modules(root):
    modules = {}
    for cmake in sorted((root / "src").glob("*/CMakeLists.txt")):
        parsed = parse_module(cmake.read_text(encoding="utf-8"))
        if parsed:
            modules[parsed[0]] = parsed[1]
    return modules


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def sources(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cc", ".inc") and "testdata" not in p.parts)


def check_includes(root, modules):
    for path in sources(root / "src") + sources(root / "apps"):
        relative = path.relative_to(root)
        owner = relative.parts[1] if relative.parts[0] == "src" else None
        if owner is not None and owner not in modules:
            yield f"{relative}: folder src/{owner} declares no haypile_module"
            continue
        for line, target in includes(path):
            module = target.split("/")[0] if "/" in target else None
            if owner is None and (path.parent / target).exists():
                continue
            if module not in modules:
                yield f'{relative}:{line}: "{target}" does not start with a module of src/'
            elif owner is not None and module != owner and module not in modules[owner]:
                yield f"{relative}:{line}: {owner} includes {module}, which is not in its DEPS"


def find_cycle(modules):
    """Names along one cycle, first and last equal, or None."""
    state, trail = {}, []

    def visit(name):
        state[name] = "open"
        trail.append(name)
        for dep in sorted(modules.get(name, ())):
            if state.get(dep) == "open":
                return trail[trail.index(dep) :] + [dep]
            if dep not in state:
                cycle = visit(dep)
                if cycle:
                    return cycle
        trail.pop()
        state[name] = "done"
        return None

    for name in sorted(modules):
        if name not in state:
            cycle = visit(name)
            if cycle:
                return cycle
    return None


def check(root):
    modules = read_modules(root)
    if not modules:
        yield f"{root}: no haypile_module found"
        return
    for name, deps in sorted(modules.items()):
        for dep in sorted(deps - modules.keys()):
            yield f"src/{name}/CMakeLists.txt: DEPS names {dep}, which is no module"
    cycle = find_cycle(modules)
    if cycle:
        yield "cycle: " + " -> ".join(cycle)
    yield from check_includes(root, modules)


if __name__ == "__main__":
    breaches.main(check, "breaches of the layers", lambda root: f"layers: {len(read_modules(root))} modules, no breach")
