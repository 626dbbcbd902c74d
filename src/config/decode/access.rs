//! The parts of a [`Node`] as serde asks for them: fields of a struct, entries of a map, items of a
//! list, the variant of an enum, and a value together with its place.

use serde::de::value::SeqDeserializer;
use serde::de::{
    DeserializeSeed, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{DecodeError, NodeDecoder, Path, Result, UNKNOWN_KEY};
use crate::config::diagnostic::Problem;
use crate::config::document::{Key, Kind, Node};
use crate::config::migrate::{NEW_KEYS, OLD_KEYS};
use crate::config::suggest;

/// Names that other programs give to our keys, and ours; they are too different to be found by their letters.
const OTHER_WORDS: [(&str, &str); 1] = [("environment", "env")];

/// The help for a file that has keys of ContainerPilot 2.
const MIGRATE: &str =
    "this looks like a configuration of ContainerPilot 2: run `containerpilot migrate FILE`";

/// Entries of an object: the fields of a struct, or any keys. Keys that a struct does not have are reported and
/// skipped; those in another case are taken with a warning, as ContainerPilot takes them.
pub(super) struct EntryAccess<'a> {
    object: &'a NodeDecoder<'a>,
    entries: &'a [(Key, Node)],
    next: usize,
    /// `None`: any keys.
    fields: Option<&'static [&'static str]>,
    value: Option<Value<'a>>,
}

/// The value of an entry that was found.
struct Value<'a> {
    name: &'a str,
    key: &'a Key,
    node: &'a Node,
}

impl<'a> EntryAccess<'a> {
    pub(super) fn new(
        object: &'a NodeDecoder<'a>,
        entries: &'a [(Key, Node)],
        fields: Option<&'static [&'static str]>,
    ) -> Self {
        Self { object, entries, next: 0, fields, value: None }
    }

    /// The field that a key means; `None` after a problem that excludes it was reported.
    fn field<'k>(&self, key: &'k Key) -> Option<&'k str> {
        let Some(fields) = self.fields else { return Some(&key.name) };
        if let Some(field) = fields.iter().find(|field| **field == key.name) {
            return Some(field);
        }
        let Some(field) = fields.iter().find(|field| field.eq_ignore_ascii_case(&key.name)) else {
            self.report_unknown(key, fields);
            return None;
        };
        let is_same = |other: &Key| other.name.eq_ignore_ascii_case(field) && other.span != key.span;
        let is_taken = |other: &Key| is_same(other) && (other.name == *field || other.span < key.span);
        if let Some((other, _)) = self.entries.iter().find(|(other, _)| is_taken(other)) {
            self.report_duplicate(key, other);
            return None;
        }
        let place = self.place();
        let message = format!("key `{}` in {place} should be written `{field}`", key.name);
        self.report(Problem::warning("key-case", key.span, message));
        Some(field)
    }

    fn report(&self, problem: Problem) {
        self.object.sink.problems.borrow_mut().push(problem);
    }

    /// The object as messages call it.
    fn place(&self) -> String {
        let path = self.object.path.to_string();
        if path.is_empty() { "the configuration".to_owned() } else { path }
    }

    fn report_duplicate(&self, key: &Key, other: &Key) {
        let (first, second) = if key.span < other.span { (key, other) } else { (other, key) };
        let message = format!("duplicate key `{}`: `{}` is the same key", second.name, first.name);
        self.report(
            Problem::error("duplicate-key", second.span, message)
                .label("given again here")
                .related(first.span, "first given here"),
        );
    }

    fn report_unknown(&self, key: &Key, fields: &[&str]) {
        let place = self.place();
        if self.is_of_version_2(key) {
            return self.report_old(key);
        }
        let other_word = OTHER_WORDS.iter().find(|(other, ours)| key.name == *other && fields.contains(ours));
        let nearest = || suggest::nearest(&key.name, fields.iter().copied());
        let help = match other_word.map(|(_, ours)| *ours).or_else(nearest) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("valid keys are {}", fields.join(", ")),
        };
        let message = format!("unknown key `{}` in {place}", key.name);
        self.report(Problem::error(UNKNOWN_KEY, key.span, message).help(help));
    }

    /// Whether the file has this key of ContainerPilot 2, and none that only version 3 has.
    fn is_of_version_2(&self, key: &Key) -> bool {
        matches!(self.object.path, Path::Root)
            && OLD_KEYS.contains(&&*key.name)
            && !self.entries.iter().any(|(other, _)| NEW_KEYS.contains(&&*other.name))
    }

    /// Reports a key of ContainerPilot 2. Only the first of them says what to do.
    fn report_old(&self, key: &Key) {
        let first = self.entries.iter().find(|(other, _)| OLD_KEYS.contains(&&*other.name));
        let help = first.filter(|(first, _)| first.span == key.span).map(|_| MIGRATE);
        let message = format!("unknown key `{}` in {}", key.name, self.place());
        self.report(Problem::error(UNKNOWN_KEY, key.span, message).maybe_help(help));
    }
}

impl<'de> MapAccess<'de> for EntryAccess<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        while let Some((key, node)) = self.entries.get(self.next) {
            self.next += 1;
            if let Some(name) = self.field(key) {
                self.value = Some(Value { name, key, node });
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let Some(Value { name, key, node }) = self.value.take() else { return Err(out_of_turn()) };
        let is_field = self.fields.is_some();
        let path = Path::Key(self.object.path, name);
        let sink = self.object.sink;
        seed.deserialize(NodeDecoder { node, key: key.span, index: 0, path: &path, is_field, sink })
    }
}

pub(super) struct ItemAccess<'a> {
    list: &'a NodeDecoder<'a>,
    items: &'a [Node],
    next: usize,
    /// A single value was written in place of a list.
    is_single: bool,
}

impl<'a> ItemAccess<'a> {
    pub(super) fn many(list: &'a NodeDecoder<'a>, items: &'a [Node]) -> Self {
        Self { list, items, next: 0, is_single: false }
    }

    pub(super) fn single(list: &'a NodeDecoder<'a>) -> Self {
        Self { list, items: std::slice::from_ref(list.node), next: 0, is_single: true }
    }
}

impl<'de> SeqAccess<'de> for ItemAccess<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        while let Some(node) = self.items.get(self.next) {
            let index = self.next;
            self.next += 1;
            if node.kind == Kind::Null && self.list.leaves_nulls_out() {
                continue;
            }
            let path = Path::Item(self.list.path, index, node);
            let path = if self.is_single { self.list.path } else { &path };
            let key = self.list.key;
            let item = NodeDecoder { node, key, index, path, is_field: false, sink: self.list.sink };
            return seed.deserialize(item).map(Some);
        }
        Ok(None)
    }
}

/// A value with its place: six numbers, then the value, or nothing if it is wrong.
pub(super) struct FieldAccess<'a> {
    node: &'a NodeDecoder<'a>,
    placed: bool,
}

impl<'a> FieldAccess<'a> {
    pub(super) fn new(node: &'a NodeDecoder<'a>) -> Self {
        Self { node, placed: false }
    }
}

impl<'de> SeqAccess<'de> for FieldAccess<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.placed {
            let result = if self.node.is_empty_name() {
                Err(DecodeError::expected(&"a name"))
            } else {
                seed.deserialize(self.node.copy())
            };
            return match self.node.locate(result) {
                Ok(value) => Ok(Some(value)),
                Err(error) => {
                    self.node.sink.report(error);
                    Ok(None)
                }
            };
        }
        self.placed = true;
        let (span, key) = (self.node.node.span, self.node.key);
        let index = u32::try_from(self.node.index).unwrap_or(u32::MAX);
        let place = [span.file.0, span.start, span.end, key.start, key.end, index];
        seed.deserialize(SeqDeserializer::new(place.into_iter())).map(Some)
    }
}

/// The variant of an enum that stands for a kind of value, which it holds.
pub(super) struct KindAccess<'a> {
    pub(super) kind: &'static str,
    pub(super) node: NodeDecoder<'a>,
}

impl<'de> EnumAccess<'de> for KindAccess<'_> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        Ok((seed.deserialize(self.kind.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for KindAccess<'_> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.node)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value> {
        Err(out_of_turn())
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value> {
        Err(out_of_turn())
    }
}

/// Raw types never ask like this; it is no mistake of the user.
fn out_of_turn() -> DecodeError {
    Error::custom("this value cannot be read")
}
