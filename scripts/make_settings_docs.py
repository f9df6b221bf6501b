"""The service's settings in, their tables in docs/operations.md out.

    scripts/make_settings_docs.py

Rules of this file: only what stands between the two marks is written; a test holds the page to it.
"""

from __future__ import annotations

from pathlib import Path

from foreword.service.settings_sources import settings_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
BEGIN = "<!-- settings: made by scripts/make_settings_docs.py -->\n"
END = "<!-- end of settings -->\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}{settings_table()}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
