//! The parts of a [`Node`] as serde asks for them: fields of a struct, entries of a map, items of a
//! list, the variant of an enum, and a value together with its place.

use serde::de::value::SeqDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::{DecodeError, NEVER_EMPTY, NodeDecoder, Path, UNKNOWN_KEY};
use crate::config::diagnostic::Problem;
use crate::config::document::{Key, Kind, Node};
use crate::config::suggest;

/// Fields of a struct: reports and skips keys that it does not have. Keys in another case are taken with a warning,
/// as ContainerPilot takes them.
pub(super) struct StructAccess<'a> {
    object: &'a NodeDecoder<'a>,
    entries: &'a [(Key, Node)],
    next: usize,
    fields: &'static [&'static str],
    value: Option<Value<'a>>,
}

/// The value of a field that was found.
struct Value<'a> {
    field: &'static str,
    key: &'a Key,
    node: &'a Node,
}

impl<'a> StructAccess<'a> {
    pub(super) fn new(
        object: &'a NodeDecoder<'a>,
        entries: &'a [(Key, Node)],
        fields: &'static [&'static str],
    ) -> Self {
        Self { object, entries, next: 0, fields, value: None }
    }

    /// The field that a key means; `None` after a problem that excludes it was reported.
    fn field(&self, key: &Key) -> Option<&'static str> {
        if let Some(field) = self.fields.iter().find(|field| **field == key.name) {
            return Some(field);
        }
        let Some(field) = self.fields.iter().find(|field| field.eq_ignore_ascii_case(&key.name)) else {
            self.report_unknown(key);
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

    fn report_unknown(&self, key: &Key) {
        let place = self.place();
        let help = match suggest::nearest(&key.name, self.fields.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("valid keys are {}", self.fields.join(", ")),
        };
        let message = format!("unknown key `{}` in {place}", key.name);
        self.report(Problem::error(UNKNOWN_KEY, key.span, message).help(help));
    }
}

impl<'de> MapAccess<'de> for StructAccess<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        while let Some((key, node)) = self.entries.get(self.next) {
            self.next += 1;
            if let Some(field) = self.field(key) {
                self.value = Some(Value { field, key, node });
                return seed.deserialize(field.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let Some(Value { field, key, node }) = self.value.take() else { return Err(out_of_turn()) };
        let empty_is_absent = !NEVER_EMPTY.contains(&field);
        let path = Path::Key(self.object.path, field);
        seed.deserialize(entry(self.object, key, node, &path, empty_is_absent))
    }
}

/// Entries of a map with any keys.
pub(super) struct EntryAccess<'a> {
    object: &'a NodeDecoder<'a>,
    entries: std::slice::Iter<'a, (Key, Node)>,
    value: Option<(&'a Key, &'a Node)>,
}

impl<'a> EntryAccess<'a> {
    pub(super) fn new(object: &'a NodeDecoder<'a>, entries: &'a [(Key, Node)]) -> Self {
        Self { object, entries: entries.iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for EntryAccess<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(key.name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let Some((key, node)) = self.value.take() else { return Err(out_of_turn()) };
        let path = Path::Key(self.object.path, &key.name);
        seed.deserialize(entry(self.object, key, node, &path, false))
    }
}

fn entry<'a>(
    object: &'a NodeDecoder<'a>,
    key: &'a Key,
    node: &'a Node,
    path: &'a Path<'a>,
    empty_is_absent: bool,
) -> NodeDecoder<'a> {
    NodeDecoder { node, key: key.span, index: 0, path, empty_is_absent, sink: object.sink }
}

/// Items of a list.
pub(super) struct ItemAccess<'a> {
    list: &'a NodeDecoder<'a>,
    items: &'a [Node],
    next: usize,
    /// The list is a single value that stands for itself.
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

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        while let Some(node) = self.items.get(self.next) {
            let index = self.next;
            self.next += 1;
            if node.kind == Kind::Null && self.list.leaves_nulls_out() {
                continue;
            }
            let path = Path::Item(self.list.path, index, node);
            let path = if self.is_single { self.list.path } else { &path };
            let key = self.list.key;
            let item = NodeDecoder { node, key, index, path, empty_is_absent: false, sink: self.list.sink };
            return seed.deserialize(item).map(Some);
        }
        Ok(None)
    }

    /// The most that can come: they are all in memory.
    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len().saturating_sub(self.next))
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

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        if self.placed {
            let result = if self.node.is_empty_name() {
                Err(self.node.wrong(&"a name"))
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

/// The variant of an enum: a kind of value, or a word.
pub(super) struct EnumAccess<'a> {
    pub(super) variant: &'static str,
    /// The value that a kind of value holds.
    pub(super) node: Option<NodeDecoder<'a>>,
}

impl<'de, 'a> serde::de::EnumAccess<'de> for EnumAccess<'a> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DecodeError> {
        let variant = seed.deserialize(self.variant.into_deserializer())?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for EnumAccess<'_> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeError> {
        self.node.map_or_else(|| Err(out_of_turn()), |node| seed.deserialize(node))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, DecodeError> {
        Err(out_of_turn())
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, DecodeError> {
        Err(out_of_turn())
    }
}

/// Raw types never ask like this; it is no mistake of the user.
fn out_of_turn() -> DecodeError {
    DecodeError::Message("this value cannot be read".to_owned())
}
