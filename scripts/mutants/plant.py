"""Plants mutants in the text of a Rust file: each place that cargo-mutants would change becomes a choice between the original
and its mutants, made when the program runs."""

import collections

import tree_sitter
import tree_sitter_rust

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))

# What is evaluated by the compiler, or is no code yet, cannot choose.
UNTOUCHED = ("token_tree", "attribute_item", "inner_attribute_item", "macro_definition", "const_item", "static_item")


class Planter:
    """One file. `sites` has the place of each planted mutant, `unplanted` why the others are not."""

    def __init__(self, text, mutants):
        self.text = text
        self.tree = PARSER.parse(text)
        self.sites, self.unplanted = {}, {}
        self.places = collections.defaultdict(list)
        lines = text.split(b"\n")
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        for mutant in mutants:
            place = mutant["span"]["start"]
            before = lines[place["line"] - 1].decode()[: place["column"] - 1]
            self.places[starts[place["line"] - 1] + len(before.encode()), mutant["genre"]].append(mutant)
            self.unplanted[mutant["id"]] = "its place was not found"

    def planted(self):
        return self.render(self.tree.root_node)

    def at(self, node, genre):
        """The mutants of a node, unless the compiler evaluates it."""
        found = self.places.get((node.start_byte, genre), [])
        if found and is_constant(node):
            for mutant in found:
                self.unplanted[mutant["id"]] = "the compiler evaluates it"
            return []
        return found

    def source(self, start, end):
        return self.text[start:end].decode()

    def choice(self, mutants, texts, original):
        site = self.note(mutants)
        arms = "".join(marked(mutant, f"{mutant['id']} => {text},") + "\n" for mutant, text in zip(mutants, texts))
        return f"(match crate::mutation::active({site}) {{\n{arms}_ => {original}\n}})"

    def note(self, mutants):
        site = mutants[0]["id"]
        for mutant in mutants:
            self.sites[mutant["id"]] = site
            self.unplanted.pop(mutant["id"], None)
        return site

    def inside(self, node, replaced=None):
        """The text of a node with what is within it planted; `replaced` has texts of children by their id."""
        if not node.children:
            return self.source(node.start_byte, node.end_byte)
        parts, at = [], node.start_byte
        for child in node.children:
            parts.append(self.source(at, child.start_byte))
            known = (replaced or {}).get(child.id)
            parts.append(self.render(child) if known is None else known)
            at = child.end_byte
        return "".join(parts) + self.source(at, node.end_byte)

    def render(self, node):
        if node.type in UNTOUCHED:
            return self.source(node.start_byte, node.end_byte)
        if node.type in ("binary_expression", "compound_assignment_expr"):
            return self.binary(node)
        if node.type == "unary_expression":
            return self.unary(node)
        if node.type in ("field_initializer", "shorthand_field_initializer"):
            return self.field(node)
        if node.type == "match_arm":
            return self.match_arm(node)
        if node.type == "function_item":
            return self.function(node)
        return self.inside(node)

    def binary(self, node):
        operator = node.child_by_field_name("operator") or node.children[1]
        mutants = self.at(operator, "BinaryOperator")
        if not mutants or any(child.type == "let_condition" for child in node.children):
            return self.inside(node)
        left, right = (self.render(node.child_by_field_name(side)) for side in ("left", "right"))
        if node.type == "binary_expression":
            left = f"({left})"
        texts = [f"{left} {mutant['replacement']} ({right})" for mutant in mutants]
        return self.choice(mutants, texts, f"{left} {operator.text.decode()} ({right})")

    def unary(self, node):
        mutants = self.at(node, "UnaryOperator")
        if not mutants:
            return self.inside(node)
        operator, operand = node.children[0].text.decode(), self.render(node.children[1])
        return self.choice(mutants, [mutant["replacement"] + operand for mutant in mutants], operator + operand)

    def field(self, node):
        """A field that is left out has the value of the base."""
        mutants = self.at(node, "StructField")
        base = next((child for child in node.parent.children if child.type == "base_field_initializer"), None)
        if not mutants or base is None:
            return self.inside(node)
        name = (node.child_by_field_name("field") or node.children[0]).text.decode()
        value = node.child_by_field_name("value")
        value = name if value is None else self.render(value)
        kind = node.parent.parent.child_by_field_name("name").text.decode()
        rest = self.inside(base).lstrip(".")
        texts = [f"{{ let whole: {kind} = {rest}; whole.{name} }}" for _ in mutants]
        return f"{name}: {self.choice(mutants, texts, value)}"

    def match_arm(self, node):
        pattern = node.child_by_field_name("pattern")
        guard = pattern.child_by_field_name("condition")
        deletions = self.at(node, "MatchArm")
        guards = self.at(guard, "MatchArmGuard") if guard is not None else []
        if not (deletions or guards) or (guard is not None and guard.type in ("let_condition", "let_chain")):
            return self.inside(node)
        end, condition = pattern.end_byte, None
        if guard is not None:
            end = next(child for child in pattern.children if child.type == "if").start_byte
            condition = self.render(guard)
        if guards:
            condition = self.choice(guards, [mutant["replacement"] for mutant in guards], condition)
        for mutant in deletions:
            self.note([mutant])
            is_there = marked(mutant, f"crate::mutation::active({mutant['id']}) != {mutant['id']}")
            condition = f"({condition}) && {is_there}" if condition else is_there
        return self.inside(node, {pattern.id: f"{self.source(pattern.start_byte, end)} if {condition}"})

    def function(self, node):
        body, returns = node.child_by_field_name("body"), node.child_by_field_name("return_type")
        mutants = self.of_function(node, body)
        if not mutants:
            return self.inside(node)
        if is_constant(body) or (returns is not None and b"impl " in returns.text):
            for mutant in mutants:
                self.unplanted[mutant["id"]] = "a constant function, or one that returns `impl`"
            return self.inside(node)
        site = self.note(mutants)
        arms = "".join(marked(m, f"{m['id']} => {{ return {m['replacement']}; }}") + "\n" for m in mutants)
        choice = f"{{ match crate::mutation::active({site}) {{\n{arms}_ => {{}}\n}}\n"
        return self.inside(node, {body.id: choice + self.inside(body)[1:]})

    def of_function(self, node, body):
        """Their place is the first statement of the body."""
        for (start, genre), mutants in self.places.items():
            if genre == "FnValue" and body is not None and body.start_byte <= start < body.end_byte:
                innermost = self.tree.root_node.descendant_for_byte_range(start, start)
                while innermost is not None and innermost.type != "function_item":
                    innermost = innermost.parent
                if innermost is not None and innermost.id == node.id:
                    return mutants
        return []


def marked(mutant, text):
    """The marks tell in which mutant an error of the compiler is."""
    return f"/*@{mutant['id']}{{*/{text}/*}}@{mutant['id']}*/"


def is_constant(node):
    while node is not None:
        if node.type in ("const_item", "static_item", "const_block"):
            return True
        if node.type == "function_item":
            return any(child.type == "function_modifiers" and b"const" in child.text for child in node.children)
        node = node.parent
    return False
