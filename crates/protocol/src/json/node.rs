//! A JSON text as a tree that remembers nothing but what it says, and refuses equal members.
use super::rejection::Rejection;
use alloc::{collections::BTreeSet, format, string::String, vec::Vec};
use core::fmt;
use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
        value::StringDeserializer,
    },
    forward_to_deserialize_any,
};

/// One value.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Why a text did not become a tree.
pub(super) enum Unread {
    /// Not JSON.
    Syntax(serde_json::Error),
    /// This path occurs twice.
    Duplicate(String),
}

/// Reads one value.
pub(super) fn read<'de, R: serde_json::de::Read<'de>>(
    reader: &mut serde_json::Deserializer<R>,
) -> Result<Node, Unread> {
    let node = Node::deserialize(reader).map_err(Unread::Syntax)?;
    match duplicate(&node) {
        Some(path) => Err(Unread::Duplicate(path)),
        None => Ok(node),
    }
}

/// The path of the first member that has an elder of the same name.
fn duplicate(node: &Node) -> Option<String> {
    match node {
        Node::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, item)| duplicate(item).map(|rest| join(format!("[{at}]"), &rest))),
        Node::Object(members) => {
            let mut seen = BTreeSet::new();
            members.iter().find_map(|(name, value)| {
                if seen.insert(name.as_str()) {
                    duplicate(value).map(|rest| join(name.clone(), &rest))
                } else {
                    Some(name.clone())
                }
            })
        }
        Node::Null | Node::Bool(_) | Node::Unsigned(_) | Node::Signed(_) | Node::Float(_) | Node::Text(_) => {
            None
        }
    }
}

/// Puts a step before a path.
pub(super) fn join(mut first: String, rest: &str) -> String {
    if !rest.is_empty() && !rest.starts_with('[') {
        first.push('.');
    }
    first.push_str(rest);
    first
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Signed(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = access.next_entry()? {
            members.push(member);
        }
        Ok(Node::Object(members))
    }
}

impl Node {
    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Unsigned(value) => Unexpected::Unsigned(*value),
            Self::Signed(value) => Unexpected::Signed(*value),
            Self::Float(value) => Unexpected::Float(*value),
            Self::Text(value) => Unexpected::Str(value),
            Self::Array(_) => Unexpected::Seq,
            Self::Object(_) => Unexpected::Map,
        }
    }
}

impl<'de> Deserializer<'de> for Node {
    type Error = Rejection;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Unsigned(value) => visitor.visit_u64(value),
            Self::Signed(value) => visitor.visit_i64(value),
            Self::Float(value) => visitor.visit_f64(value),
            Self::Text(value) => visitor.visit_string(value),
            Self::Array(items) => visitor.visit_seq(Items { items: items.into_iter(), at: 0 }),
            Self::Object(members) => visitor.visit_map(Members { members: members.into_iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Rejection> {
        if matches!(self, Self::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Rejection> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Rejection> {
        if matches!(self, Self::Object(_)) {
            self.deserialize_any(visitor)
        } else {
            Err(de::Error::invalid_type(self.unexpected(), &"an object"))
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Rejection> {
        if let Self::Text(text) = self {
            visitor.visit_enum(text.into_deserializer())
        } else {
            Err(de::Error::invalid_type(self.unexpected(), &"a string"))
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

struct Items {
    items: alloc::vec::IntoIter<Node>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Rejection;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Rejection> {
        let Some(item) = self.items.next() else {
            return Ok(None);
        };
        let at = self.at;
        self.at += 1;
        seed.deserialize(item).map(Some).map_err(|rejection| rejection.within(format!("[{at}]")))
    }
}

struct Members {
    members: alloc::vec::IntoIter<(String, Node)>,
    value: Option<(String, Node)>,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Rejection;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Rejection> {
        let Some((name, value)) = self.members.next() else {
            return Ok(None);
        };
        self.value = Some((name.clone(), value));
        let reader: StringDeserializer<Rejection> = name.clone().into_deserializer();
        seed.deserialize(reader).map(Some).map_err(|rejection| rejection.at_key(name))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Rejection> {
        let (name, value) =
            self.value.take().ok_or_else(|| de::Error::custom("a value was asked for before its key"))?;
        seed.deserialize(value).map_err(|rejection| rejection.within(name))
    }
}
