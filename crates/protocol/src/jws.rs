//! Compact JWS (RFC 7515) with Ed25519 (RFC 8037) and nothing else.
//!
//! One algorithm, one `typ` a use, the key by `kid` from a pinned set (RFC 8725): what a token says of itself
//! chooses nothing. Signatures are checked with `verify_strict`, which refuses the small-order and
//! non-canonical cases on which Ed25519 libraries differ. The header must be byte for byte the one that this
//! cluster writes, so there is nothing in it to be clever with.
use crate::id::ClusterId;
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use core::fmt;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey, pkcs8::DecodePrivateKey};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// The longest token that is looked at, in bytes: a write set of 256 long scopes fits.
pub const MAX_TOKEN_BYTES: usize = 256 * 1024;

/// Why a token is no token of this use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwsError {
    /// Not three base64url parts, or too long.
    Malformed,
    /// Another algorithm or `typ`.
    WrongType,
    /// Signed with a key that isn't in the set.
    UnknownKey,
    /// The signature does not hold.
    BadSignature,
    /// The signature holds, but the claims aren't of this use.
    BadClaims,
}

impl fmt::Display for JwsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a compact JWS",
            Self::WrongType => "a JWS of another algorithm or type",
            Self::UnknownKey => "signed with a key that is not in the key set",
            Self::BadSignature => "the signature does not hold",
            Self::BadClaims => "the claims are not of this use",
        })
    }
}

impl core::error::Error for JwsError {}

/// The name of a key: from the key itself, so that two nodes name it alike (RFC 7638, RFC 8037 §2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(String);

impl KeyId {
    /// The name as it stands in `kid`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(key: &VerifyingKey) -> Self {
        // RFC 7638: SHA-256 over the required members in lexicographic order, without white space.
        let jwk =
            format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, URL_SAFE_NO_PAD.encode(key.as_bytes()));
        Self(URL_SAFE_NO_PAD.encode(Sha256::digest(jwk.as_bytes())))
    }
}

/// A key that signs.
pub struct Signer25519 {
    key: SigningKey,
    id: KeyId,
}

impl Signer25519 {
    /// Takes the 32 bytes of a private key.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self::from_key(SigningKey::from_bytes(seed))
    }

    /// Reads a PKCS#8 PEM file, as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    /// [`JwsError::Malformed`] where it is none.
    pub fn from_pem(pem: &str) -> Result<Self, JwsError> {
        SigningKey::from_pkcs8_pem(pem).map(Self::from_key).map_err(|_| JwsError::Malformed)
    }

    fn from_key(key: SigningKey) -> Self {
        let id = KeyId::of(&key.verifying_key());
        Self { key, id }
    }

    /// The name of the key.
    #[must_use]
    pub const fn key_id(&self) -> &KeyId {
        &self.id
    }

    /// The public half.
    #[must_use]
    pub fn verifier(&self) -> Jwk {
        Jwk::of(&self.key.verifying_key())
    }

    /// Signs the claims as a token of a `typ`.
    ///
    /// # Errors
    /// [`JwsError::BadClaims`] where they can't be written as JSON.
    pub fn sign<T: Serialize>(&self, typ: &str, claims: &T) -> Result<String, JwsError> {
        let claims = serde_json::to_vec(claims).map_err(|_| JwsError::BadClaims)?;
        let mut token = URL_SAFE_NO_PAD.encode(header(typ, &self.id));
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = self.key.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.to_bytes(), &mut token);
        Ok(token)
    }
}

impl fmt::Debug for Signer25519 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer25519").field("id", &self.id).finish_non_exhaustive()
    }
}

fn header(typ: &str, id: &KeyId) -> String {
    format!(r#"{{"alg":"EdDSA","kid":"{}","typ":"{typ}"}}"#, id.0)
}

/// A public key as JSON (RFC 8037 §2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Jwk {
    /// `OKP`.
    pub kty: String,
    /// `Ed25519`.
    pub crv: String,
    /// The public key, base64url.
    pub x: String,
    /// The key's name.
    pub kid: String,
    /// `EdDSA`.
    pub alg: String,
    /// `sig`.
    #[serde(rename = "use")]
    pub usage: String,
}

impl Jwk {
    fn of(key: &VerifyingKey) -> Self {
        Self {
            kty: "OKP".to_string(),
            crv: "Ed25519".to_string(),
            x: URL_SAFE_NO_PAD.encode(key.as_bytes()),
            kid: KeyId::of(key).0,
            alg: "EdDSA".to_string(),
            usage: "sig".to_string(),
        }
    }

    fn key(&self) -> Option<VerifyingKey> {
        if self.kty != "OKP" || self.crv != "Ed25519" {
            return None;
        }
        let bytes: [u8; 32] = URL_SAFE_NO_PAD.decode(&self.x).ok()?.try_into().ok()?;
        VerifyingKey::from_bytes(&bytes).ok()
    }
}

/// `GET /.well-known/jwks.json` (RFC 7517 §5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Jwks {
    /// The public keys; readers skip kinds that they don't know.
    pub keys: Vec<Jwk>,
    /// The cluster whose keys these are: `iss` of its grants. A member of our own (RFC 7517 §5 allows it), so
    /// that a target can pin its cluster without a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
}

/// The pinned set of keys that tokens are checked against.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: BTreeMap<KeyId, VerifyingKey>,
}

impl KeySet {
    /// The Ed25519 keys of a JWKS; each is named by what it is, whatever its `kid` claims.
    #[must_use]
    pub fn new(jwks: &Jwks) -> Self {
        let keys = jwks.keys.iter().filter_map(Jwk::key).map(|key| (KeyId::of(&key), key)).collect();
        Self { keys }
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks a token of a `typ` and reads its claims.
    ///
    /// # Errors
    /// [`JwsError`], without having looked at the claims before the signature held.
    pub fn verify<T: DeserializeOwned>(&self, typ: &str, token: &str) -> Result<T, JwsError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwsError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwsError::Malformed)?;
        let (head, claims) = signed.split_once('.').ok_or(JwsError::Malformed)?;
        let key = self.key_of(typ, &URL_SAFE_NO_PAD.decode(head).map_err(|_| JwsError::Malformed)?)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwsError::Malformed)?;
        if !verify_strict(key, signed.as_bytes(), &signature) {
            return Err(JwsError::BadSignature);
        }
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| JwsError::Malformed)?;
        serde_json::from_slice(&claims).map_err(|_| JwsError::BadClaims)
    }

    fn key_of(&self, typ: &str, head: &[u8]) -> Result<&VerifyingKey, JwsError> {
        #[derive(Deserialize)]
        struct Header {
            kid: KeyId,
        }
        let Header { kid } = serde_json::from_slice(head).map_err(|_| JwsError::WrongType)?;
        if head != header(typ, &kid).as_bytes() {
            return Err(JwsError::WrongType);
        }
        self.keys.get(&kid).ok_or(JwsError::UnknownKey)
    }
}

/// RFC 8032 §5.1.7 without its leeway: canonical encodings only, no small-order points.
fn verify_strict(key: &VerifyingKey, message: &[u8], signature: &[u8]) -> bool {
    Signature::from_slice(signature).is_ok_and(|signature| key.verify_strict(message, &signature).is_ok())
}

/// Checks one raw signature under one raw public key, as [`KeySet::verify`] does for tokens.
#[must_use]
pub fn verify_raw(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    VerifyingKey::from_bytes(key).is_ok_and(|key| verify_strict(&key, message, signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn signer(seed: u8) -> Signer25519 {
        Signer25519::from_seed(&[seed; 32])
    }

    fn set(signers: &[&Signer25519]) -> KeySet {
        KeySet::new(&Jwks { keys: signers.iter().map(|signer| signer.verifier()).collect(), cluster: None })
    }

    #[test]
    fn a_token_is_read_back_and_any_changed_character_is_refused() {
        let signer = signer(1);
        let token = signer.sign("a+jwt", &json!({"fence": 7})).unwrap();
        assert_eq!(set(&[&signer]).verify::<Value>("a+jwt", &token).unwrap(), json!({"fence": 7}));
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(set(&[&signer]).verify::<Value>("a+jwt", &changed).is_err(), "position {at}");
        }
    }

    #[test]
    fn a_token_of_another_use_or_key_is_refused() {
        let (ours, theirs) = (signer(1), signer(2));
        let token = ours.sign("a+jwt", &json!({})).unwrap();
        assert_eq!(set(&[&ours]).verify::<Value>("b+jwt", &token), Err(JwsError::WrongType));
        assert_eq!(set(&[&theirs]).verify::<Value>("a+jwt", &token), Err(JwsError::UnknownKey));
        assert!(set(&[&ours, &theirs]).verify::<Value>("a+jwt", &token).is_ok());
    }

    #[test]
    fn no_header_talks_the_verifier_into_another_algorithm() {
        let signer = signer(1);
        let claims = URL_SAFE_NO_PAD.encode("{}");
        let kid = signer.key_id().as_str();
        for head in [
            r#"{"alg":"none","typ":"a+jwt"}"#.to_string(),
            format!(r#"{{"alg":"none","kid":"{kid}","typ":"a+jwt"}}"#),
            format!(r#"{{"alg":"HS256","kid":"{kid}","typ":"a+jwt"}}"#),
            format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"a+jwt","jwk":{{}}}}"#),
            format!(r#"{{"alg":"EdDSA","alg":"none","kid":"{kid}","typ":"a+jwt"}}"#),
        ] {
            let signed = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(head));
            let signature = URL_SAFE_NO_PAD.encode(signer.key.sign(signed.as_bytes()).to_bytes());
            for token in [format!("{signed}.{signature}"), format!("{signed}.")] {
                assert!(set(&[&signer]).verify::<Value>("a+jwt", &token).is_err());
            }
        }
    }

    #[test]
    fn a_key_set_may_name_its_cluster_and_need_not() {
        let bare: Jwks = serde_json::from_str(r#"{"keys":[]}"#).unwrap();
        assert_eq!(bare.cluster, None);
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"keys":[]}"#);
        let named = Jwks { cluster: Some(ClusterId::from_bits(1)), ..bare };
        let json = serde_json::to_string(&named).unwrap();
        assert_eq!(serde_json::from_str::<Jwks>(&json).unwrap(), named);
    }

    #[test]
    fn what_is_no_token_is_refused_without_a_panic() {
        for bad in
            ["", ".", "..", "...", "a.b.c", "=.=.=", &".".repeat(1000), &"a".repeat(MAX_TOKEN_BYTES + 1)]
        {
            assert!(set(&[&signer(1)]).verify::<Value>("a+jwt", bad).is_err());
        }
    }
}
