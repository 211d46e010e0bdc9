//! Who may do what: the one table of roles and rights, for `apply`, the routes and the OpenAPI document.
use ringfence_protocol::Role;

/// Who asks, as far as rights go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// The holder of a role token.
    Role(Role),
    /// A run with its own credential.
    Run,
}

impl Caller {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Role(Role::Operator),
        Self::Role(Role::Admin),
        Self::Role(Role::Orchestrator),
        Self::Role(Role::Target),
        Self::Role(Role::Approver),
        Self::Role(Role::Auditor),
        Self::Run,
    ];

    /// The word in the OpenAPI document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role(role) => role.as_str(),
            Self::Run => "run",
        }
    }
}

/// What can be done, as far as rights go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// Create runs.
    CreateRun,
    /// End a run: its own, or one that the principal created; an admin any.
    EndRun,
    /// Revoke a run that the principal created; an admin any.
    RevokeRun,
    /// Acquire, renew and release leases: a run its own, an orchestrator those of runs that it created.
    HoldLease,
    /// Read runs, leases and resources of the tenant.
    ReadTenant,
    /// Make, list and revoke tokens.
    ManageTokens,
    /// Verify grants.
    Verify,
    /// Read the cluster's own state.
    ReadCluster,
    /// Read metrics where they are not open to everybody.
    ReadMetrics,
}

impl Right {
    /// Whether the kind of caller has it at all; whose run or lease it is about is judged apart.
    #[must_use]
    pub const fn is_of(self, caller: Caller) -> bool {
        use Caller::{Role as Of, Run};
        match self {
            Self::CreateRun => matches!(caller, Of(Role::Orchestrator)),
            Self::EndRun => matches!(caller, Run | Of(Role::Orchestrator | Role::Admin)),
            Self::RevokeRun => matches!(caller, Of(Role::Orchestrator | Role::Admin)),
            Self::HoldLease => matches!(caller, Run | Of(Role::Orchestrator)),
            Self::ReadTenant => !matches!(caller, Of(Role::Operator)),
            Self::ManageTokens => matches!(caller, Of(Role::Operator | Role::Admin)),
            Self::Verify => matches!(caller, Of(Role::Target)),
            Self::ReadCluster => true,
            Self::ReadMetrics => matches!(caller, Of(Role::Operator)),
        }
    }
}
