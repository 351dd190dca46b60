# SPDX-License-Identifier: BSD-3-Clause
"""Finds the mutants of source files in clang's syntax tree, and writes files that hold them all:
`a < b` becomes `(weft_mutation::is(17) ? (a <= b) : (a < b))`.

Operators:
  bound        < and <=, > and >= for each other
  condition    == and != for each other, && and ||; the condition of an `if` or `?:` negated
  arithmetic   + and - for each other, * and /, << and >>, & and |
  by_one       an integer constant one larger
  order        two neighbouring arguments of one type in a call, exchanged
  dropped      a statement that is an assignment, an increment or a call, left out
  enumerator   another enumerator of the same enumeration
"""
import dataclasses
import json
import pathlib
import re
import subprocess

SWAPS = {"<": ("bound", "<="), "<=": ("bound", "<"), ">": ("bound", ">="), ">=": ("bound", ">"),
         "==": ("condition", "!="), "!=": ("condition", "=="), "&&": ("condition", "||"),
         "||": ("condition", "&&"), "+": ("arithmetic", "-"), "-": ("arithmetic", "+"),
         "*": ("arithmetic", "/"), "/": ("arithmetic", "*"), "<<": ("arithmetic", ">>"),
         ">>": ("arithmetic", "<<"), "&": ("arithmetic", "|"), "|": ("arithmetic", "&")}
# What these hold is evaluated by the compiler, or has no place for an expression. Defaults of
# members (FieldDecl) belong to them: gcc folds them where it makes an object, as if none were
# chosen.
CONSTANT = {"StaticAssertDecl", "EnumConstantDecl", "TemplateArgument", "CXXNoexceptExpr",
            "UnaryExprOrTypeTraitExpr", "FieldDecl", "ConceptDecl", "RequiresExpr", "InitListExpr"}
DROPPED = {"CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr", "CompoundAssignOperator"}
FLAGS = ("-std=c++20", "-DNDEBUG", "-fsyntax-only", "-w")


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    begin: int
    end: int
    operator: str
    pieces: tuple  # the mutated text: strings, and (begin, end) of the file
    statement: bool = False
    constexpr: bool = False  # in a function that the compiler may evaluate


class Finder:
    """The mutants in the files `wanted` of one translation unit."""

    def __init__(self, root, wanted):
        self.root, self.wanted = root, wanted
        self.file, self.found, self.texts = "", set(), {}
        self.constexpr = False  # in a function of that kind
        self.enumerators = {}  # id of an enumerator: the names of the others

    def run(self, source, namespaces):
        for namespace in namespaces:
            text = subprocess.run(
                ["clang++", *FLAGS, f"-I{self.root}/include", f"-I{self.root}", "-Xclang",
                 "-ast-dump=json", "-Xclang", f"-ast-dump-filter={namespace}", str(source)],
                stdout=subprocess.PIPE, text=True, check=True).stdout
            decoder, at, trees = json.JSONDecoder(), 0, []
            while (at := self.skip_space(text, at)) < len(text):
                tree, at = decoder.raw_decode(text, at)
                trees.append(tree)
            for tree in trees:
                self.locate(tree)
            for tree in trees:
                self.enumerate(tree)
            for tree in trees:
                self.visit(tree, None)
        return self.found

    @staticmethod
    def skip_space(text, at):
        while at < len(text) and text[at].isspace():
            at += 1
        return at

    def locate(self, node):
        """Clang names a file only where it differs from that of the location before."""
        if isinstance(node, list):
            for each in node:
                self.locate(each)
        elif isinstance(node, dict):
            if "offset" in node:
                self.file = node.get("file", self.file)
                node["file"] = self.file
            for key, each in node.items():
                if key != "includedFrom":
                    self.locate(each)

    def enumerate(self, node):
        if node.get("kind") == "EnumDecl":
            each = [(c["id"], c["name"]) for c in node.get("inner", ())
                    if c["kind"] == "EnumConstantDecl"]
            for i, (number, _) in enumerate(each):
                self.enumerators[number] = each[(i + 1) % len(each)][1]
        for child in node.get("inner", ()):
            self.enumerate(child)

    def extent(self, node):
        """(file, begin, end) of a node of a wanted file that no macro makes; None: of others."""
        begin, end = (node.get("range", {}).get(side, {}) for side in ("begin", "end"))
        if "offset" not in begin or "offset" not in end or begin["file"] != end["file"]:
            return None
        path = pathlib.Path(begin["file"]).resolve()
        name = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else ""
        if name not in self.wanted:
            return None
        return name, begin["offset"], end["offset"] + end["tokLen"]

    def text(self, file, begin, end):
        if file not in self.texts:
            self.texts[file] = (self.root / file).read_bytes()
        return self.texts[file][begin:end].decode()

    def add(self, node, operator, *pieces, statement=False):
        where = self.extent(node)
        if where is None:
            return
        places = []
        for piece in pieces:
            if isinstance(piece, dict):
                inner = self.extent(piece)
                if inner is None or inner[0] != where[0] or not (where[1] <= inner[1] <= inner[2]
                                                                 <= where[2]):
                    return
                piece = inner[1:]
            places.append(piece)
        if "#" not in self.text(*where):  # no directive in between
            self.found.add(Mutant(*where, operator, tuple(places), statement, self.constexpr))

    def visit(self, node, parent):
        kind, inner = node.get("kind"), [c for c in node.get("inner", ()) if c.get("kind")]
        if kind in CONSTANT or node.get("constexpr") and kind == "VarDecl":
            return
        if kind == "BinaryOperator" and node["opcode"] in SWAPS:
            operator, other = SWAPS[node["opcode"]]
            self.add(node, operator, inner[0], f" {other} ", inner[1])
        elif kind in ("IfStmt", "ConditionalOperator") and not node.get("hasInit") \
                and not node.get("hasVar") and not node.get("isConstexpr"):
            self.add(inner[0], "condition", "!(", inner[0], ")")
        elif kind == "IntegerLiteral" and (parent or {}).get("castKind") != "NullToPointer":
            self.add(node, "by_one", node, " + 1")
        elif kind == "DeclRefExpr" and node["referencedDecl"].get("id") in self.enumerators:
            self.enumerator(node)
        if kind in ("CallExpr", "CXXMemberCallExpr"):
            self.order(node, inner[1:])
        if kind == "CompoundStmt":
            for child in inner:
                self.dropped(child)
        outer = self.constexpr
        self.constexpr = outer or bool(node.get("constexpr"))
        # A label of a `case` is a constant; what follows it is not.
        for child in inner[1:] if kind == "CaseStmt" else inner:
            if kind == "IfStmt" and node.get("isConstexpr") and child is inner[0]:
                continue
            self.visit(child, node)
        self.constexpr = outer

    def enumerator(self, node):
        where = self.extent(node)
        name = node["referencedDecl"]["name"]
        if where is None or not self.text(*where).endswith(name):
            return
        before = self.text(*where)[:-len(name)]
        self.add(node, "enumerator", before + self.enumerators[node["referencedDecl"]["id"]])

    def order(self, call, arguments):
        for one, two in zip(arguments, arguments[1:]):
            types = [a.get("type", {}).get("qualType") for a in (one, two)]
            places = [self.extent(a) for a in (one, two)]
            if types[0] != types[1] or None in places or places[0][0] != places[1][0]:
                continue
            file, begin, middle = places[0]
            _, after, end = places[1]
            whole = self.extent(call)
            if whole is None or self.text(*places[0]) == self.text(*places[1]):
                continue
            if whole[1] <= begin and middle <= after and end <= whole[2]:
                self.found.add(Mutant(file, whole[1], whole[2], "order", (
                    (whole[1], begin), (after, end), (middle, after), (begin, middle),
                    (end, whole[2])), False, self.constexpr))

    def dropped(self, statement):
        kind = statement.get("kind")
        while kind == "ExprWithCleanups":
            statement = statement["inner"][0]
            kind = statement.get("kind")
        assigns = kind == "BinaryOperator" and statement["opcode"] == "="
        counts = kind == "UnaryOperator" and statement["opcode"] in ("++", "--")
        if kind in DROPPED or assigns or counts:
            self.add(statement, "dropped", "", statement=True)


def render(text, mutants):
    """The text of a file with its mutants {number: Mutant}; nested ones within each other. Lines
    keep their numbers, by which the compiler names a mutant that does not compile."""
    order = sorted(mutants.items(), key=lambda m: (m[1].begin, -m[1].end, m[0]))

    def plain(begin, end):
        return text[begin:end].decode()

    def part(begin, end, inside):
        """[begin, end) with the mutants `inside` it."""
        out, at, i = [], begin, 0
        while i < len(inside):
            number, mutant = inside[i]
            nested = [m for m in inside[i + 1:] if m[1].end <= mutant.end]
            out += [plain(at, mutant.begin), wrap(number, mutant, nested)]
            at = mutant.end
            i += 1 + len(nested)
        return "".join(out) + plain(at, end)

    def wrap(number, mutant, nested):
        original = part(mutant.begin, mutant.end, nested)
        if mutant.statement:
            return f"if (!weft_mutation::is({number})) {original}"
        changed = "".join(p if isinstance(p, str) else plain(*p) for p in mutant.pieces)
        changed = re.sub(r"(//[^\n]*)?\n\s*", " ", changed)  # the file keeps its lines
        return f"(weft_mutation::is({number}) ? ({changed}) : ({original}))"

    # Crossing extents cannot be: drop the later one.
    kept = []
    for each in order:
        if all(each[1].begin >= k[1].end or each[1].end <= k[1].end for k in kept):
            kept.append(each)
    return part(0, len(text), kept).encode(), {number for number, _ in kept}
