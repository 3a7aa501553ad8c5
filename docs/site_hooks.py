"""MkDocs hooks: the README as the front page, files outside docs/ as pages of the site, roles of docstrings as code.

Pages link to files of the repository (``../agents/README.md``, ``../prfaas_env/attention.py``), which also works where
the repository is browsed. On the site each such file is a page under ``sources/``, so that the site needs no network.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
FRONT = "README.md"
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^(```.*?^```|<!--.*?-->)", flags=re.DOTALL | re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):<code>~?(?:[\w.]*\.)?(\w+)</code>")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json", ".cff": "yaml"}
IMAGES = {".png", ".svg"}
log = logging.getLogger(f"mkdocs.hooks.{Path(__file__).stem}")


def site_path(path: str) -> str:
    """Where a file or folder of the repository, by its path there, stands among the sources of the site."""
    if path == FRONT:
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        readme = (ROOT / path / "README.md").is_file()
        return f"sources/{path}/{'README' if readme else 'index'}.md"
    return f"sources/{path}" if path.endswith(".md") or Path(path).suffix in IMAGES else f"sources/{path}.md"


def repository_path(page: str) -> str:
    """The other way round, of a page whose text is a file's own: folder by which its links go."""
    if page == "index.md":
        return FRONT
    return page.removeprefix("sources/") if page.startswith("sources/") else f"docs/{page}"


def targets(text: str, path: str) -> Iterator[str]:
    """Paths in the repository that the Markdown of the file ``path`` links to."""
    for _, target, _ in LINK.findall(FENCE.sub("", text)):
        yield normpath(PurePosixPath(path).parent / target)


def text_of(path: str) -> str:
    """The page of a file or a folder outside docs/."""
    source = ROOT / path
    if source.is_dir():
        rows = [f"- [{p.name}]({p.name})" for p in sorted(source.iterdir()) if p.suffix in LANGUAGES]
        return f"# {path}\n\n" + "\n".join(rows) + "\n"
    text = source.read_text(encoding="utf-8")
    return text if source.suffix == ".md" else f"# {path}\n\n````{LANGUAGES.get(source.suffix, 'text')}\n{text}\n````\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the front page, and what is linked to outside docs/, directly or from such a page."""
    left = [(FRONT, "")] + [
        (target, f"docs/{file.src_uri}")
        for file in files.documentation_pages()
        for target in targets(file.content_string, f"docs/{file.src_uri}")
    ]
    seen = set()
    while left:
        path, linked_from = left.pop()
        if path in seen or path.startswith("docs/"):
            continue
        seen.add(path)
        source = ROOT / path
        if not source.resolve().is_relative_to(ROOT) or not source.exists():
            log.warning("%s: links to %s, which is not there", linked_from, path)
            continue
        if source.suffix in IMAGES:
            files.append(File.generated(config, site_path(path), abs_src_path=str(source)))
            continue
        own = f"{path}/README.md" if (source / "README.md").is_file() else path
        text = text_of(own)
        if site_path(own) not in files.src_uris:
            files.append(File.generated(config, site_path(own), content=text))
        if own.endswith(".md") or source.is_dir():
            left += [(target, own) for target in targets(text, own if own.endswith(".md") else f"{own}/index.md")]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Links by their place in the repository become links by their place on the site."""
    here = page.file.src_uri
    path = repository_path(here)

    def moved(found: re.Match[str]) -> str:
        before, target, after = found.groups()
        there = site_path(normpath(PurePosixPath(path).parent / target))
        return f"{before}{relpath(there, PurePosixPath(here).parent)}{after}"

    parts = FENCE.split(markdown)
    return "".join(part if FENCE.match(part) else LINK.sub(moved, part) for part in parts)


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`~a.B``` of a docstring is the code ``B``."""
    return ROLE.sub(r"<code>\1</code>", html)
