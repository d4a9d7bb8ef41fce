"""The picture of a report that README.md shows: `python -m tests.report_picture` draws it anew."""

import re
import tempfile
from pathlib import Path

from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.harness.report import render
from tests.golden.stored import unpacked

PICTURE = Path(__file__).parent.parent / "docs" / "report.svg"
_RELEASE = "1.1.1"
_WIDTH, _LEFT, _TOP = 1000, 108, 76
_NAME = re.compile(r'<span style="top:(\d+)px">([^<]*)(?: <b>(.*?)</b>)?</span>')


def picture() -> str:
    """The picture of the golden run of 1.1.1 as an SVG file of its own, in light colours."""
    with tempfile.TemporaryDirectory() as folder:
        run = unpacked(_RELEASE, Path(folder))
        write_judgement(run, judge(run))
        page = render(run)
    drawn = _between(page, '<svg class="strip whole"', "</svg>\n</div>\n</div>") + "</svg>"
    height = int(_between(drawn, 'height="', '"', inside=True))
    outcome = _between(page, "<h1>", "</h1>", inside=True)
    (number, told) = re.findall(r'<li data-step="(\d+)"[^>]* class="fatal">(.*?) <strong>', page)[0]
    decided = f"{number}. {' '.join(re.sub(r'<[^>]*>', ' ', told).split())}"
    # Only the colours of light paper: who shows the picture need not tell which he has.
    style = _between(page, "<style>", "@media (max-width", inside=True)
    style = re.sub(r"@media \(prefers-color-scheme: dark\) \{.*?\n\}\n", "", style, flags=re.DOTALL)
    named = "".join(
        f'<text x="{_LEFT - 12}" y="{_TOP + int(top) + 14}" text-anchor="end">{lane}'
        f"{f' ({letter})' if letter else ''}</text>"
        for top, lane, letter in _NAME.findall(page)
    )
    total = _TOP + height + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{total}" '
        f'viewBox="0 0 {_WIDTH} {total}">\n<title>{outcome}</title>\n<style>{style}'
        f'svg {{ font: 12px system-ui, "DejaVu Sans", sans-serif; }}\n</style>\n'
        f"{_between(page, '<defs>', '</defs>')}</defs>\n"
        f'<rect width="{_WIDTH}" height="{total}" fill="#ffffff"></rect>\n'
        f'<text x="12" y="28" style="font-size: 20px; font-weight: 700">{outcome}</text>\n'
        f'<text x="12" y="52" style="fill: #b54400">{decided}</text>\n'
        f'{named}\n<svg x="{_LEFT}" y="{_TOP}" width="{_WIDTH - _LEFT - 24}" height="{height}" '
        f'overflow="visible">\n{drawn}\n</svg>\n</svg>\n'
    )


def _between(text: str, start: str, end: str, *, inside: bool = False) -> str:
    """The text from `start`, or from behind it, up to `end`."""
    begin = text.index(start) + (len(start) if inside else 0)
    return text[begin : text.index(end, begin + (0 if inside else len(start)))]


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE)
