//! Who asks, and whether a request was asked before.
use crate::{
    command::{Actor, Operation, RequestKey},
    limits,
    outcome::{Done, Refusal, Reply, Thing},
    permission::{Caller, Right},
    records::{Due, KeyId, Made, Owner, RequestRecord, RunRecord},
    state::State,
};
use alloc::{format, string::ToString, sync::Arc};
use ringfence_protocol::{Principal, RunId, Tenant, Timestamp, body::RunState};

/// Who asks: what the credential stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The kind of caller, for rights.
    pub caller: Caller,
    /// The tenant; `None` for the operator.
    pub tenant: Option<Tenant>,
    /// The principal: of a run, the one that created it; `None` for the operator.
    pub principal: Option<Principal>,
    /// The run, where it is one.
    pub run: Option<RunId>,
}

impl Subject {
    /// Refuses who has not this right.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`].
    pub fn need(&self, right: Right) -> Result<(), Refusal> {
        if right.is_of(self.caller) {
            return Ok(());
        }
        let who = self.caller.as_str();
        Err(Refusal::Forbidden(format!("the credential is of kind `{who}`, which may not do this")))
    }

    /// The tenant of a caller that has one.
    pub(crate) fn tenant(&self) -> Result<&Tenant, Refusal> {
        self.tenant
            .as_ref()
            .ok_or_else(|| Refusal::Forbidden("the operator belongs to no tenant".to_string()))
    }
}

/// A request that is being judged.
pub(crate) struct Ask {
    pub(crate) subject: Subject,
    pub(crate) wall: Timestamp,
    pub(crate) key: Option<RequestKey>,
}

impl Operation {
    /// The right that it needs.
    #[must_use]
    pub const fn right(&self) -> Right {
        match self {
            Self::CreateRun { .. } => Right::CreateRun,
            Self::EndRun { revoke: false, .. } => Right::EndRun,
            Self::EndRun { revoke: true, .. } => Right::RevokeRun,
            Self::Acquire { .. } | Self::Renew { .. } | Self::Release { .. } => Right::HoldLease,
            Self::CreateToken { .. } | Self::RevokeToken { .. } => Right::ManageTokens,
        }
    }
}

impl State {
    /// Judges a credential: first of all, before the run or the lease that the request is about.
    ///
    /// # Errors
    /// [`Refusal::Unauthenticated`], [`Refusal::CredentialRevoked`], [`Refusal::CredentialExpired`], or
    /// [`Refusal::RunEnded`].
    pub fn subject(&self, actor: &Actor) -> Result<Subject, Refusal> {
        match actor {
            Actor::Operator => {
                let caller = Caller::Role(ringfence_protocol::Role::Operator);
                Ok(Subject { caller, tenant: None, principal: None, run: None })
            }
            Actor::Token(id) => {
                let token = self.tokens.get(id).ok_or(Refusal::Unauthenticated)?;
                if token.revoked {
                    return Err(Refusal::CredentialRevoked);
                }
                Ok(Subject {
                    caller: Caller::Role(token.role),
                    tenant: Some(token.tenant.clone()),
                    principal: Some(Principal::new(token.role, &token.name)),
                    run: None,
                })
            }
            Actor::Run(id) => {
                let run = self.runs.get(id).ok_or(Refusal::Unauthenticated)?;
                match run.state {
                    RunState::Active => Ok(Subject {
                        caller: Caller::Run,
                        tenant: Some(run.tenant.clone()),
                        principal: Some(run.created_by.clone()),
                        run: Some(*id),
                    }),
                    RunState::Ended => Err(Refusal::RunEnded(*id)),
                    RunState::Revoked => Err(Refusal::CredentialRevoked),
                    RunState::Expired => Err(Refusal::CredentialExpired),
                }
            }
        }
    }

    /// A run that the subject may act for: its own, one that its principal created, or, for an admin, any of the
    /// tenant. What another tenant has isn't there.
    pub(crate) fn run_of(&self, subject: &Subject, run: RunId) -> Result<&RunRecord, Refusal> {
        let tenant = subject.tenant()?;
        let record = self.runs.get(&run).filter(|record| record.tenant == *tenant);
        let record = record.ok_or(Refusal::NotFound(Thing::Run))?;
        let may = match subject.caller {
            Caller::Run => subject.run == Some(run),
            Caller::Role(ringfence_protocol::Role::Admin) => true,
            Caller::Role(_) => subject.principal.as_ref() == Some(&record.created_by),
        };
        if may {
            Ok(record)
        } else {
            Err(Refusal::Forbidden(format!("{run} is not yours: {}", who_may(subject))))
        }
    }

    /// The first outcome of a request that was made before under the same key, as it is now.
    ///
    /// Only a success takes a key, so a refused request is judged anew.
    pub(crate) fn replay(&self, ask: &Ask, owner: &Owner) -> Result<Option<Done>, Refusal> {
        let Some(key) = &ask.key else { return Ok(None) };
        let Some(record) = self.keys.get(&KeyId { owner: owner.clone(), key: key.key.as_str().into() })
        else {
            if self.keys.len() >= limits::REQUEST_RECORDS {
                return Err(Refusal::RequestRecordsFull);
            }
            return Ok(None);
        };
        if record.fingerprint != key.fingerprint {
            return Err(Refusal::FingerprintConflict);
        }
        let reply = match record.made {
            Made::Run(run) => self.run_reply(run).ok_or(Refusal::NotFound(Thing::Run))?,
            Made::Lease(lease) => {
                let record = self.leases.get(&lease).ok_or(Refusal::NotFound(Thing::Lease))?;
                if let Some(end) = record.end {
                    return Err(Refusal::LeaseEnded { lease, reason: end.reason });
                }
                self.lease_reply(lease, ask.wall).ok_or(Refusal::NotFound(Thing::Lease))?
            }
            Made::LeaseOver(lease, reason) => return Err(Refusal::LeaseEnded { lease, reason }),
            Made::Token(token) => self.token_reply(token).ok_or(Refusal::NotFound(Thing::Token))?,
        };
        Ok(Some(Done { reply, replayed: true }))
    }

    /// Notes what a key was used for. A lease's key is forgotten some time after the lease has ended, any other after
    /// a day.
    pub(crate) fn note(&mut self, ask: &Ask, owner: Owner, made: Made) -> Option<Arc<KeyId>> {
        let key = ask.key.as_ref()?;
        let id = Arc::new(KeyId { owner, key: key.key.as_str().into() });
        self.keys.insert(id.clone(), RequestRecord { fingerprint: key.fingerprint, made });
        if !matches!(made, Made::Lease(_)) {
            let at = self.log_ms.saturating_add(limits::REMEMBER_MS);
            self.deadlines.insert((at, Due::ForgetKey(id.clone())));
        }
        Some(id)
    }
}

fn who_may(subject: &Subject) -> &'static str {
    match subject.caller {
        Caller::Run => "a run acts for itself only",
        Caller::Role(_) => "an orchestrator acts for the runs that it created",
    }
}

/// Whose keys a request of the subject has, where they aren't a run's.
pub(crate) fn owner_of(subject: &Subject) -> Owner {
    match (&subject.tenant, &subject.principal) {
        (Some(tenant), Some(principal)) => Owner::Principal(tenant.clone(), principal.clone()),
        (Some(_) | None, _) => Owner::Operator,
    }
}

pub(crate) const fn done(reply: Reply) -> Done {
    Done { reply, replayed: false }
}
