//! Marks and data in memory, for tests: what is lost at the end of the process protects nothing after it.
use super::{Judgement, Store};
use crate::{
    decide::Permit,
    error::GuardError,
    marks::{Life, Marks, ModeMarks, Realm},
};
use ringfence_protocol::{Scope, id::ClusterId};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    ops::Bound::{Included, Unbounded},
};

/// A store in memory. A write works on a copy of the data, which takes its place when the write is done.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore<D = ()> {
    marks: MemoryMarks,
    data: D,
}

#[derive(Debug, Clone, Default)]
struct MemoryMarks {
    realms: BTreeMap<Realm, BTreeMap<Box<str>, ModeMarks>>,
    lives: BTreeMap<ClusterId, Life>,
}

impl<D> MemoryStore<D> {
    /// A store that has seen nothing, with this data.
    #[must_use]
    pub fn new(data: D) -> Self {
        Self { marks: MemoryMarks::default(), data }
    }

    /// The data. Writes go through [`Guard::write`](crate::Guard::write) alone.
    #[must_use]
    pub const fn data(&self) -> &D {
        &self.data
    }
}

impl<D: Clone + 'static> Store for MemoryStore<D> {
    type Error = Infallible;
    type Handle<'t> = &'t mut D;

    fn observe<O>(&mut self, observe: O) -> Result<(), GuardError<Infallible>>
    where
        O: FnOnce(&mut dyn Marks<Error = Infallible>) -> Result<(), Infallible>,
    {
        observe(&mut self.marks).map_err(GuardError::Store)
    }

    fn transact<T, J, W>(&mut self, judge: J, write: W) -> Result<T, GuardError<Infallible>>
    where
        J: FnOnce(&mut dyn Marks<Error = Infallible>) -> Result<Judgement, Infallible>,
        W: for<'t> FnOnce(&'t mut D, &Permit) -> Result<T, GuardError<Infallible>>,
    {
        let permit = judge(&mut self.marks).map_err(GuardError::Store)??;
        let mut data = self.data.clone();
        let done = write(&mut data, &permit)?;
        self.data = data;
        Ok(done)
    }
}

impl MemoryMarks {
    fn of(&self, realm: &Realm) -> Option<&BTreeMap<Box<str>, ModeMarks>> {
        self.realms.get(realm)
    }
}

impl Marks for MemoryMarks {
    type Error = Infallible;

    fn raise(&mut self, realm: &Realm, scope: &Scope, marks: &ModeMarks) -> Result<(), Infallible> {
        let scopes = self.realms.entry(realm.clone()).or_default();
        scopes.entry(scope.as_str().into()).or_default().raise(marks);
        Ok(())
    }

    fn at(&mut self, realm: &Realm, scope: &str) -> Result<ModeMarks, Infallible> {
        let marks = self.of(realm).and_then(|scopes| scopes.get(scope));
        Ok(marks.copied().unwrap_or_default())
    }

    fn under(&mut self, realm: &Realm, prefix: &str) -> Result<ModeMarks, Infallible> {
        let mut greatest = ModeMarks::default();
        if let Some(scopes) = self.of(realm) {
            let from_prefix = scopes.range::<str, _>((Included(prefix), Unbounded));
            for (_, marks) in from_prefix.take_while(|(scope, _)| scope.starts_with(prefix)) {
                greatest.raise(marks);
            }
        }
        Ok(greatest)
    }

    fn life(&mut self, cluster: ClusterId) -> Result<Option<Life>, Infallible> {
        Ok(self.lives.get(&cluster).copied())
    }

    fn set_life(&mut self, cluster: ClusterId, life: &Life) -> Result<(), Infallible> {
        self.lives.insert(cluster, *life);
        Ok(())
    }
}
