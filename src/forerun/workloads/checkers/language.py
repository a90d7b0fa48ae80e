"""Which language an output is in."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from forerun.workloads.checkers.base import Checker, CheckResult

_STOP_WORDS = {
    "en": "the of and to in is that it was for on are with as at be this have from or had by not but what were when "
    "there can which their if will each about how up out them then she he they you we his her would its has our",
    "de": "der die das und ist nicht ein eine einen einem einer zu den von mit sich des auf für im dem auch es an "
    "werden aus er hat dass sie nach wird bei noch wie um oder ich wir haben sind war zum zur über wenn nur aber vor",
    "fr": "le la les des et est un une du dans que qui pour pas sur au avec ce il elle sont nous vous par plus mais ou "
    "se ne cette aux leur ses je été être ont fait comme tout si sans deux ces où très avant après à",
    "es": "el la los las de que y en un una es por con para del se no su al lo como más pero sus le ya o este sí "
    "porque esta entre cuando muy sin sobre también me hasta hay donde desde todo nos durante todos uno ni fue son",
    "it": "il lo la gli le di che e in un una è per con non del della dei delle si al sono come più ma anche nel nella "
    "alla da dal questo questa ha hanno era suo sua loro quando molto se ogni tra cui dopo prima così",
    "pt": "o a os as de que e em um uma é por com para do da dos das no na nos nas não se ao mais como mas foi ele ela "
    "são seu sua ou quando muito também já pelo pela até isso depois sem mesmo está você",
    "nl": "de het een en van is niet dat op te in voor met zijn aan er om ook als naar maar bij uit nog dan wordt door "
    "ze hij wij deze die heeft hebben worden over zo of geen kan werd waar tot",
}
_WORDS = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_SCRIPTS = {
    "kana": re.compile(r"[぀-ヿ]"),
    "hangul": re.compile(r"[가-힯]"),
    "han": re.compile(r"[㐀-鿿]"),
    "cyrillic": re.compile(r"[Ѐ-ӿ]"),
    "arabic": re.compile(r"[؀-ۿ]"),
    "greek": re.compile(r"[Ͱ-Ͽ]"),
    "latin": re.compile(r"[A-Za-zÀ-ɏ]"),
}
_LANGUAGE_OF_SCRIPT = {"hangul": "ko", "han": "zh", "cyrillic": "ru", "arabic": "ar", "greek": "el"}
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ]+")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# A Han character holds about as much as a short word of Latin letters.
_LETTERS_PER_IDEOGRAPH = 3
_MIN_STOP_WORDS = 2


@dataclass(frozen=True, slots=True)
class LanguageChecker(Checker):
    """Most of the output is in ``language`` (en, de, fr, es, it, pt, nl, zh, ja, ko, ru, ar, el)."""

    language: str

    def check(self, output: str) -> CheckResult:
        """Compare the detected language; an undecided output fails."""
        found = detect_language(output)
        return CheckResult(found == self.language, f"language {found or 'undecided'}, {self.language} expected")


def detect_language(text: str) -> str | None:
    """The language by script and, for Latin letters, by stop words; ``None`` where the evidence is thin or even.

    A heuristic with limits: code fences are left out; a Latin text needs two stop words and a lead over every other
    language known here; all Cyrillic counts as Russian and all Han without kana as Chinese; languages that aren't
    listed are taken for their neighbours or for undecided.
    """
    prose = _FENCE.sub(" ", text)
    amounts = {script: len(pattern.findall(prose)) for script, pattern in _SCRIPTS.items()}
    for script in ("han", "kana", "hangul"):
        amounts[script] *= _LETTERS_PER_IDEOGRAPH
    if amounts["kana"] * 10 > amounts["han"]:
        amounts["kana"] += amounts.pop("han")
    script, amount = max(amounts.items(), key=lambda item: item[1])
    if amount == 0:
        return None
    if script == "kana":
        return "ja"
    return _latin_language(prose) if script == "latin" else _LANGUAGE_OF_SCRIPT[script]


def _latin_language(text: str) -> str | None:
    words = Counter(word.lower() for word in _LATIN_WORD.findall(text))
    scores = {
        language: sum(count for word, count in words.items() if word in known) for language, known in _WORDS.items()
    }
    (best, top), (_, second) = Counter(scores).most_common(2)
    return best if top >= _MIN_STOP_WORDS and top > second else None
