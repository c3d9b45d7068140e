"""Plain text to raw records: header, titles, one paper per block or per line, labelled lists."""

import re
from dataclasses import dataclass
from statistics import median

from core.abstracts import limits
from core.abstracts.labelled import is_labelled, label_free, read_labelled
from core.abstracts.parsed_file import ParsedFile, RawRecord, Reading

_BLANK = re.compile(r"[\s\u200b\u2060\ufeff]*")
_LIST_MARK = re.compile(r"\s*(?:\(?\d{1,4}[.)]|\[\d{1,4}\]|\([ivx]{1,5}\)|[-*•–‣▪])\s+(?=\S)")
_SENTENCE_END = re.compile(r"[.!?。！？…;；][\"'”’)\]*_]*$")
_HEADING = re.compile(
    r"(?i)\b(?:(?:19|20)\d\d|papers?|abstracts?|proceedings|conference|workshop|accepted|list|track|session|posters?)\b"
    "|论文|列表|摘要|会议"
)
_RULE = re.compile(r"\s*(?:[-=*_#~]\s*){3,}$")
_CJK_EDGE = re.compile("[\u3000-\u9fff\uff00-\uffef]")
_OPENING = re.compile(r"\\\[|\\begin\{")
_CLOSING = re.compile(r"\\\]|\\end\{")
LONG_LINE = 200  # characters; lines of this length without blank lines between them are one paper each
_BLOCKS = 10  # paragraphs an abstract that its title, authors and so on may take
SHORT_PIECE = 120  # characters; less than this among long pieces is a continuation


@dataclass
class Block:
    """Lines without a blank one between them; `line` is the 1-based number of the first."""

    lines: list[str]
    line: int

    @property
    def text(self) -> str:
        return glue(self.lines)


def read_plain(lines: list[str], reading: Reading) -> ParsedFile:
    """The papers of a plain-text list."""
    parsed = ParsedFile([])
    blocks = _whole_formulas(_blocks(lines))
    titled = reading.titles is not False and _alternates(blocks)
    if len(blocks) > 1 and _has_header(blocks[0], titled, reading):
        first = blocks.pop(0).text
        parsed.name, parsed.header = _unmarked(first), not first.startswith("#")
        titled = reading.titles is not False and _alternates(blocks)
    blocks = _one_per_line(blocks)
    if is_labelled(blocks):
        read_labelled(blocks, parsed, glue, reading.join)
    else:
        _read_blocks(blocks, titled, parsed, reading)
    return parsed


def _has_header(first: Block, titled: bool, reading: Reading) -> bool:
    if reading.header is not None:
        return reading.header
    return _is_header(first) and (not titled or bool(_HEADING.search(first.text)))


def glue(lines: list[str]) -> str:
    """Soft-wrapped lines as one: joined by a space, but not after a hyphen or between Chinese characters."""
    text = ""
    for line in (line.strip() for line in lines):
        tight = text.endswith("-") and text[-2:-1].isalpha() and line[:1].islower()
        chinese = _CJK_EDGE.match(text[-1:]) and _CJK_EDGE.match(line[:1])
        text += line if tight or chinese or not text else f" {line}"
    return text


def _blocks(lines: list[str]) -> list[Block]:
    blocks: list[Block] = []
    open_block = False
    for number, line in enumerate(lines, start=1):
        if _BLANK.fullmatch(line) or _RULE.match(line):
            open_block = False
        elif open_block:
            blocks[-1].lines.append(line)
        else:
            blocks.append(Block([line], number))
            open_block = True
            if len(blocks) > _BLOCKS * limits.ABSTRACTS:
                limits.check_count(len(blocks), f"at line {number}")
    return blocks


def _whole_formulas(blocks: list[Block]) -> list[Block]:
    """Blocks that a blank line split inside `$$…$$`, `\\[…\\]` or an environment, whole again."""
    whole: list[Block] = []
    position = 0
    while position < len(blocks):
        block, position = blocks[position], position + 1
        lines = list(block.lines)
        for reach in range(position, min(position + 4, len(blocks))):
            if not _is_open(lines) or blocks[reach].lines[0].startswith("#"):
                break
            longer = [*lines, *(line for other in blocks[position : reach + 1] for line in other.lines)]
            if not _is_open(longer):
                lines, position = longer, reach + 1
        whole.append(Block(lines, block.line))
    return whole


def _is_open(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return text.count("$$") % 2 == 1 or len(_OPENING.findall(text)) > len(_CLOSING.findall(text))


def _is_short_line(block: Block, most: int = 200) -> bool:
    text = block.text
    return len(block.lines) == 1 and len(text) <= most and len(text.split()) <= 25 and not _ends(text)


def _ends(text: str) -> bool:
    """Whether the text ends as a sentence or a list item does; a title may end with a question mark."""
    return bool(_SENTENCE_END.search(text)) and not (text.endswith("?") and len(text.split()) <= 25)


def _is_header(block: Block) -> bool:
    return _is_short_line(block, 120) and not block.text.endswith((":", "?", "："))


def _is_title(block: Block) -> bool:
    return _is_short_line(block) and not block.text.endswith((":", "：", ",")) and not _LIST_MARK.match(block.text)


def _alternates(blocks: list[Block]) -> bool:
    """Whether a title stands before four of five papers, as a block of its own."""
    pairs, papers, position = 0, 0, 0
    while position < len(blocks):
        following = blocks[position + 1] if position + 1 < len(blocks) else None
        paired = _is_title(blocks[position]) and following is not None and not _is_title(following)
        pairs, papers, position = pairs + paired, papers + 1, position + 1 + paired
    return pairs > 0 and pairs >= 0.8 * papers


def _one_per_line(blocks: list[Block]) -> list[Block]:
    """Long lines without any blank line between them are papers of their own."""
    if len(blocks) != 1 or len(blocks[0].lines) < 2:
        return blocks
    block = blocks[0]
    if median(map(len, block.lines)) < LONG_LINE:
        return blocks
    return [Block([line], block.line + offset) for offset, line in enumerate(block.lines)]


def _read_blocks(blocks: list[Block], titled: bool, parsed: ParsedFile, reading: Reading) -> None:
    numbered = sum(bool(_LIST_MARK.match(block.lines[0])) for block in blocks) >= 0.8 * len(blocks)
    topped = not titled and _topped(blocks, reading)
    titled = titled or (reading.titles is True and not topped)
    parsed.titles = titled or topped
    typical = median(len(block.text) for block in blocks) if blocks else 0
    title, title_line = "", 0
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        if titled and not title and _is_title(block) and following is not None and not _is_title(following):
            title, title_line = _unmarked(block.text), block.line
            continue
        head, lines = ("", block.lines)
        if topped and len(block.lines) > 1:
            head, lines = _unmarked(block.lines[0]), block.lines[1:]
        record = RawRecord(label_free(glue(lines)), title_line or block.line, title=title or head)
        if numbered:
            record.text = _LIST_MARK.sub("", record.text, count=1)
        before = parsed.records[-1].text if parsed.records else ""
        if not record.title and before and reading.join and _continues(before, record.text, numbered, typical):
            parsed.records[-1].text += f"\n\n{block.text}"
            parsed.joined.append((block.line, "joined to the paper before"))
        elif not record.title and reading.header is not False and _is_heading_between(block, typical):
            parsed.skip(block.line, "a heading, not an abstract", block.text)
            parsed.header = True
        else:
            parsed.records.append(record)
            limits.check_count(len(parsed.records), f"at line {block.line}")
        title, title_line = "", 0


def _topped(blocks: list[Block], reading: Reading) -> bool:
    """Whether titles stand as the line straight above the abstracts."""
    if reading.titles is None:
        return _has_top_lines(blocks)
    return reading.titles and sum(len(block.lines) > 1 for block in blocks) * 2 >= len(blocks)


def _unmarked(text: str) -> str:
    """A title or header without heading signs, list mark and emphasis around it."""
    text = _LIST_MARK.sub("", text.strip(), count=1).lstrip("# ").rstrip("# ")
    return text.strip("*_ ") if text[:1] in "*_" else text


def _has_top_lines(blocks: list[Block]) -> bool:
    """Whether four of five papers have their title as the line straight above."""
    return bool(blocks) and sum(map(_has_top_line, blocks)) >= 0.8 * len(blocks)


def _has_top_line(block: Block) -> bool:
    if len(block.lines) < 2 or not _is_title(Block(block.lines[:1], block.line)):
        return False
    top, below = block.lines[0].strip(), [line.strip() for line in block.lines[1:]]
    share = 1.0 if len(below) == 1 else 0.8
    return not below[0][:1].islower() and len(top) < share * max(map(len, below))


def _continues(before: str, piece: str, numbered: bool, typical: float) -> bool:
    """Whether a piece goes on with the paper before it rather than being one of its own."""
    if len(before) + len(piece) > limits.CHARACTERS:  # no abstract grows without end
        return False
    before = before[-400:]  # its end tells; time stays linear
    if before.rstrip("*_ ").endswith((":", "：")) or (not numbered and _LIST_MARK.match(piece)):
        return True
    first = re.match(r"[a-z]+(?= )", piece)
    if first and (len(first[0]) > 1 or not _ends(before)) and not re.match(r"[A-Z]", piece[first.end() + 1 :][:1]):
        return True
    return typical >= 3 * SHORT_PIECE and 40 <= len(piece) < SHORT_PIECE and _ends(piece)


def _is_heading_between(block: Block, typical: float) -> bool:
    return typical >= 3 * SHORT_PIECE and len(block.text) < 80 and _is_title(block) and len(block.text.split()) > 1
