//! A serde deserializer over [`Node`]s that does not stop at the first mistake. Unknown keys are
//! reported and skipped; a value of the wrong kind is reported, and the nearest enclosing
//! [`Field`](super::raw::Field) becomes one without a value.
//!
//! `serde_path_to_error` was weighed: it tells where the first mistake is, and users are to see all of them.

mod access;
mod error;

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};

use self::access::{EntryAccess, FieldAccess, ItemAccess, KindAccess};
pub use self::error::DecodeError;
use super::diagnostic::{Problem, Problems};
use super::document::{Kind, Node};
use super::secret::{is_secret_name, is_secret_object};
use super::source::Span;

type Result<T> = std::result::Result<T, DecodeError>;

/// The name under which a [`Field`](super::raw::Field) asks for its place along with its value.
pub(super) const FIELD: &str = "$field";

/// The name under which a list accepts a single value too.
pub(super) const ONE_OR_MANY: &str = "$one-or-many";

/// The name under which a text asks for a number as it is written.
pub(super) const AS_WRITTEN: &str = "$as-written";

/// The code of problems with keys that a struct does not have.
pub(super) const UNKNOWN_KEY: &str = "unknown-key";

/// The names of JSON5's kinds of values: an enum of these stands for "one of these kinds".
const KINDS: [&str; 5] = ["array", "bool", "number", "object", "string"];

/// ContainerPilot takes an empty string, as a template often leaves one, for an absent value. Not so
/// for these, where it would hide a mistake or mean something else.
const NEVER_EMPTY: [&str; 13] = [
    "after", "command", "consul", "exec", "group", "http", "key", "name", "port", "prefix", "restarts",
    "tcp", "user",
];

/// Lists of texts whose `null` items are left out, as ContainerPilot does; elsewhere they are wrong.
const NULLS_LEFT_OUT: [&str; 4] = ["command", "exec", "interfaces", "tags"];

/// Converts a document into a raw type; `None` if not even its outermost value fits.
pub fn decode<T: DeserializeOwned>(node: &Node, text: &str, problems: &mut Problems) -> Option<T> {
    let sink = Sink { text, problems: RefCell::default() };
    let decoder =
        NodeDecoder { node, key: Span::default(), index: 0, path: &Path::Root, is_field: false, sink: &sink };
    let decoded = T::deserialize(decoder).map_err(|error| sink.report(error)).ok();
    sink.problems.into_inner().into_iter().for_each(|problem| problems.add(problem));
    decoded
}

/// Where problems go, and the text that they quote.
struct Sink<'a> {
    text: &'a str,
    problems: RefCell<Vec<Problem>>,
}

impl Sink<'_> {
    fn report(&self, error: DecodeError) {
        self.problems.borrow_mut().push(error.into_problem());
    }
}

/// The way from the root of the document to a value.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize, &'a Node),
}

impl Path<'_> {
    /// Whether it is an object whose values may all be secrets, what stands in its place, or a value in it at any depth.
    fn is_in_secret_object(&self) -> bool {
        match self {
            Self::Root => false,
            Self::Key(parent, key) => is_secret_object(key) || parent.is_in_secret_object(),
            Self::Item(parent, ..) => parent.is_in_secret_object(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Item(parent, index, node) => {
                write!(f, "{parent}[{index}]")?;
                match node.get_in_any_case("name").and_then(Node::as_str) {
                    Some(name) if !name.is_empty() => write!(f, " ({name:?})"),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// A value that is about to be converted.
struct NodeDecoder<'a> {
    node: &'a Node,
    /// The place of its key, if it has one.
    key: Span,
    /// Its position in a list.
    index: usize,
    path: &'a Path<'a>,
    /// It is a field of ours, not an entry with a name that the user chose.
    is_field: bool,
    sink: &'a Sink<'a>,
}

impl NodeDecoder<'_> {
    fn is_secret(&self) -> bool {
        matches!(self.path, Path::Key(_, key) if is_secret_name(key)) || self.path.is_in_secret_object()
    }

    fn is_empty_name(&self) -> bool {
        self.is_field && matches!(self.path, Path::Key(_, "name")) && self.node.as_str() == Some("")
    }

    fn leaves_nulls_out(&self) -> bool {
        matches!(self.path, Path::Key(_, key) if NULLS_LEFT_OUT.contains(key))
    }

    /// The value as a message calls it.
    fn found(&self) -> String {
        match &self.node.kind {
            Kind::Array(_) => "an array".to_owned(),
            Kind::Object(_) => "an object".to_owned(),
            _ if self.is_secret() => "a hidden value".to_owned(),
            Kind::Null => "null".to_owned(),
            Kind::Bool(value) => value.to_string(),
            Kind::String(text) => quote(text),
            Kind::Unsigned(_) | Kind::Signed(_) | Kind::Float(_) => {
                self.sink.text.get(self.node.span.range()).unwrap_or("a number").to_owned()
            }
        }
    }

    /// The text of a finite number: `3.10` is not `3.1` to a program that gets it as a text.
    fn number_as_written(&self) -> Option<&str> {
        let is_number = match &self.node.kind {
            Kind::Unsigned(_) | Kind::Signed(_) => true,
            Kind::Float(number) => number.is_finite(),
            Kind::Null | Kind::Bool(_) | Kind::String(_) | Kind::Array(_) | Kind::Object(_) => false,
        };
        self.sink.text.get(self.node.span.range()).filter(|_| is_number)
    }

    /// Adds place, path and what was found to an error that has none yet.
    fn locate<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.located(self.node.span, &self.path.to_string(), || self.found()))
    }

    fn kind_name(&self) -> Option<&'static str> {
        match &self.node.kind {
            Kind::Null => None,
            Kind::Bool(_) => Some("bool"),
            Kind::Unsigned(_) | Kind::Signed(_) | Kind::Float(_) => Some("number"),
            Kind::String(_) => Some("string"),
            Kind::Array(_) => Some("array"),
            Kind::Object(_) => Some("object"),
        }
    }

    fn any<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value> {
        match &self.node.kind {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(value) => visitor.visit_bool(*value),
            Kind::Unsigned(value) => visitor.visit_u64(*value),
            Kind::Signed(value) => visitor.visit_i64(*value),
            Kind::Float(value) => visitor.visit_f64(*value),
            Kind::String(text) => visitor.visit_str(text),
            Kind::Array(items) => visitor.visit_seq(ItemAccess::many(self, items)),
            Kind::Object(entries) => visitor.visit_map(EntryAccess::new(self, entries, None)),
        }
    }

    fn one_of_kinds<'de, V: Visitor<'de>>(&self, kinds: &[&str], visitor: V) -> Result<V::Value> {
        match self.kind_name().filter(|kind| kinds.contains(kind)) {
            Some(kind) => visitor.visit_enum(KindAccess { kind, node: self.copy() }),
            None => Err(DecodeError::expected(&visitor)),
        }
    }

    /// Words are compared without regard to case, as ContainerPilot does for levels and formats.
    fn one_of_words<'de, V: Visitor<'de>>(
        &self,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let text = self.node.as_str();
        match text.and_then(|text| words.iter().find(|word| word.eq_ignore_ascii_case(text))) {
            Some(word) => visitor.visit_enum(word.into_deserializer()),
            None => Err(DecodeError::not_a_word(words, text)),
        }
    }

    fn copy(&self) -> NodeDecoder<'_> {
        NodeDecoder { ..*self }
    }
}

/// A text in quotes, cut to what fits a message.
fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return format!("{text:?}");
    }
    let shown: String = text.chars().take(SHOWN).collect();
    format!("{shown:?}…")
}

impl<'de> Deserializer<'de> for NodeDecoder<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.locate(self.any(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let may_be_empty = matches!(self.path, Path::Key(_, key) if !NEVER_EMPTY.contains(key));
        let is_empty = self.is_field && may_be_empty && self.node.as_str() == Some("");
        if is_empty || self.node.kind == Kind::Null {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        match name {
            FIELD => visitor.visit_seq(FieldAccess::new(&self)),
            ONE_OR_MANY => self.locate(visitor.visit_seq(match self.node.as_array() {
                Some(items) => ItemAccess::many(&self, items),
                None => ItemAccess::single(&self),
            })),
            AS_WRITTEN => self.locate(match self.number_as_written() {
                Some(number) => visitor.visit_str(number),
                None => self.any(visitor),
            }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let result = match self.node.as_object() {
            Some(entries) => visitor.visit_map(EntryAccess::new(&self, entries, Some(fields))),
            None => Err(DecodeError::expected(&"an object")),
        };
        self.locate(result)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let is_union = variants.iter().all(|variant| KINDS.contains(variant));
        let result = if is_union {
            self.one_of_kinds(variants, visitor)
        } else {
            self.one_of_words(variants, visitor)
        };
        self.locate(result)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let result = match self.node.as_array() {
            Some(items) => visitor.visit_seq(ItemAccess::many(&self, items)),
            None => Err(DecodeError::expected(&"an array")),
        };
        self.locate(result)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let result = match self.node.as_object() {
            Some(entries) => visitor.visit_map(EntryAccess::new(&self, entries, None)),
            None => Err(DecodeError::expected(&visitor)),
        };
        self.locate(result)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct identifier ignored_any
    }
}
