//! Records and how they look on the disk.
//!
//! What is written with one fsync is a **group**: one or more records, back to back.
//!
//! ```text
//! record   header (40) · payload (length) · end mark (8 to 15 bytes 0xE7, up to a multiple of 8)
//! header   magic u32 · kind u8 · 0 u8×3 · length u32 · group_left u32 · group u64 · index u64
//!          · payload CRC u32 · header CRC u32                          (all little-endian)
//! ```
//!
//! - The header has its own checksum, so that a damaged length is known to be damaged before it is used.
//! - `group_left` counts the bytes from this record to the end of its group: any one good header tells where the
//!   group ends, and the record for which it equals its own length is the last one.
//! - Both checksums start from the log's id and the segment's number: bytes of another log, another segment or an
//!   earlier use of the same disk blocks are not valid here.
//! - No 512-byte sector of a written group is all zero, which tells a sector that was written from one that was not
//!   (see [`super::tail`]): a record begins with the magic and ends with the end mark, and payloads are stored XORed
//!   with an 8-byte mask made from the log's id. It hides nothing; it keeps a long run of zero bytes in a payload
//!   from looking unwritten, and nobody who writes payloads knows it.
//!
//! The end mark is not verified: it carries nothing, and a group whose checksums hold is complete without it.

use crate::storage::fields::{u32_at, u64_at};

/// Bytes of a record's header.
pub(super) const RECORD_HEADER: usize = 40;
/// Records start at multiples of this.
pub(super) const ALIGNMENT: usize = 8;
/// Bytes of a record without payload: header and shortest end mark.
pub(super) const EMPTY_RECORD: usize = RECORD_HEADER + ALIGNMENT;

const MAGIC: [u8; 4] = *b"RfR1";
const END_MARK: u8 = 0xE7;

/// Something to be kept in the log. Payloads mean nothing to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The entry at `index`, which must be the one after the last. The very first one may have any index.
    Entry {
        /// Position in the log.
        index: u64,
        /// The entry.
        bytes: Vec<u8>,
    },
    /// Every entry at `from_index` and above is gone.
    Truncate {
        /// The first entry that is gone.
        from_index: u64,
    },
    /// Replaces the vote.
    Vote(Vec<u8>),
    /// Replaces the committed position.
    Committed(Vec<u8>),
    /// Every entry up to `upto_index` is gone. Beyond the last entry: the log goes on at `upto_index + 1`. At or
    /// below an earlier purge point: without effect.
    ///
    /// What the purged entries led to must be durable elsewhere (a snapshot) before this is submitted.
    Purge {
        /// The last entry that is gone.
        upto_index: u64,
        /// What the caller wants to know about the purge point after a restart.
        bytes: Vec<u8>,
    },
}

/// What a record on the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Entry = 1,
    Truncate = 2,
    Vote = 3,
    Committed = 4,
    Purge = 5,
    /// First record of each segment: the state before it.
    Checkpoint = 6,
    /// Last record of a segment: the log goes on in the next one.
    Seal = 7,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Entry, Self::Truncate, Self::Vote, Self::Committed, Self::Purge, Self::Checkpoint, Self::Seal]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// A record about to be encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) kind: Kind,
    pub(super) index: u64,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes on the disk.
    pub(super) fn encoded_len(&self) -> usize {
        encoded_len(self.payload.len())
    }
}

impl Record {
    pub(super) fn frame(&self) -> Frame<'_> {
        match self {
            Self::Entry { index, bytes } => Frame { kind: Kind::Entry, index: *index, payload: bytes },
            Self::Truncate { from_index } => Frame { kind: Kind::Truncate, index: *from_index, payload: &[] },
            Self::Vote(bytes) => Frame { kind: Kind::Vote, index: 0, payload: bytes },
            Self::Committed(bytes) => Frame { kind: Kind::Committed, index: 0, payload: bytes },
            Self::Purge { upto_index, bytes } => {
                Frame { kind: Kind::Purge, index: *upto_index, payload: bytes }
            }
        }
    }
}

/// Bytes that a record with a payload of `payload_len` takes on the disk.
pub(super) fn encoded_len(payload_len: usize) -> usize {
    payload_len.next_multiple_of(ALIGNMENT) + EMPTY_RECORD
}

/// A header that matched its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    kind_byte: u8,
    pub(super) payload_len: usize,
    pub(super) group_left: usize,
    pub(super) group: u64,
    pub(super) index: u64,
    payload_crc: u32,
}

impl Header {
    /// Bytes of the record that this header begins.
    pub(super) fn record_len(&self) -> usize {
        encoded_len(self.payload_len)
    }

    /// What the record is; `None` for a kind that this format does not have.
    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::from_byte(self.kind_byte)
    }
}

/// Encodes and decodes the records of one segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Codec {
    mask: [u8; ALIGNMENT],
    seed: u32,
}

impl Codec {
    /// The codec for segment `number` of the log `log_id`.
    pub(super) fn new(log_id: u64, number: u64) -> Self {
        let mask = mix(log_id).to_le_bytes().map(|byte| if byte == 0 { END_MARK } else { byte });
        let seed = crc32c::crc32c_append(crc32c::crc32c(&log_id.to_le_bytes()), &number.to_le_bytes());
        Self { mask, seed }
    }

    /// Appends `frames` to `out` as the group number `group`. The caller keeps groups below 4 GiB.
    pub(super) fn encode_group(&self, group: u64, frames: &[Frame<'_>], out: &mut Vec<u8>) {
        let mut left: usize = frames.iter().map(Frame::encoded_len).sum();
        out.reserve(left);
        for frame in frames {
            self.encode_record(group, left, frame, out);
            left -= frame.encoded_len();
        }
    }

    fn encode_record(&self, group: u64, group_left: usize, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[frame.kind as u8, 0, 0, 0]);
        out.extend_from_slice(&length_field(frame.payload.len()));
        out.extend_from_slice(&length_field(group_left));
        out.extend_from_slice(&group.to_le_bytes());
        out.extend_from_slice(&frame.index.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(frame.payload);
        let payload_start = start + RECORD_HEADER;
        self.apply_mask(&mut out[payload_start..]);
        let payload_crc = crc32c::crc32c_append(self.seed, &out[payload_start..]);
        out[start + 32..start + 36].copy_from_slice(&payload_crc.to_le_bytes());
        let header_crc = crc32c::crc32c_append(self.seed, &out[start..start + 36]);
        out[start + 36..payload_start].copy_from_slice(&header_crc.to_le_bytes());
        out.resize(start + frame.encoded_len(), END_MARK);
    }

    /// The header at the start of `bytes`, if there is one and it matches its checksum.
    pub(super) fn header(&self, bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..RECORD_HEADER)?;
        if bytes[..4] != MAGIC || crc32c::crc32c_append(self.seed, &bytes[..36]) != u32_at(bytes, 36) {
            return None;
        }
        Some(Header {
            kind_byte: bytes[4],
            payload_len: u32_at(bytes, 8) as usize,
            group_left: u32_at(bytes, 12) as usize,
            group: u64_at(bytes, 16),
            index: u64_at(bytes, 24),
            payload_crc: u32_at(bytes, 32),
        })
    }

    /// The stored payload of the record that starts `bytes` with `header`, if it is there and matches its checksum.
    pub(super) fn stored_payload<'a>(&self, header: &Header, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let payload = bytes.get(RECORD_HEADER..RECORD_HEADER + header.payload_len)?;
        (crc32c::crc32c_append(self.seed, payload) == header.payload_crc).then_some(payload)
    }

    /// The payload as it was submitted.
    pub(super) fn reveal(&self, stored: &[u8]) -> Vec<u8> {
        let mut payload = stored.to_vec();
        self.apply_mask(&mut payload);
        payload
    }

    fn apply_mask(&self, payload: &mut [u8]) {
        for chunk in payload.chunks_mut(ALIGNMENT) {
            for (byte, mask) in chunk.iter_mut().zip(self.mask) {
                *byte ^= mask;
            }
        }
    }
}

/// Spreads an id over all bits (the finalizer of SplitMix64).
fn mix(id: u64) -> u64 {
    let id = (id ^ (id >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let id = (id ^ (id >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    id ^ (id >> 31)
}

fn length_field(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("the writer keeps groups below 4 GiB").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(codec: &Codec, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        codec.encode_group(7, &[Frame { kind: Kind::Entry, index: 3, payload }], &mut out);
        out
    }

    #[test]
    fn a_record_round_trips_and_is_aligned() {
        let codec = Codec::new(1, 2);
        for length in 0..40 {
            let payload: Vec<u8> = (0..length).collect();
            let bytes = encoded(&codec, &payload);
            let header = codec.header(&bytes).expect("valid");
            assert_eq!((header.kind(), header.group, header.index), (Some(Kind::Entry), 7, 3));
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            assert_eq!((header.record_len(), header.group_left), (bytes.len(), bytes.len()));
            let stored = codec.stored_payload(&header, &bytes).expect("valid");
            assert_eq!(codec.reveal(stored), payload);
            assert!(bytes[bytes.len() - 8..].iter().all(|byte| *byte == END_MARK));
        }
    }

    #[test]
    fn any_flipped_bit_before_the_end_mark_is_noticed() {
        let codec = Codec::new(1, 2);
        let good = encoded(&codec, b"0123456789");
        for position in 0..RECORD_HEADER + 10 {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[position] ^= 1 << bit;
                let intact =
                    codec.header(&bad).and_then(|header| codec.stored_payload(&header, &bad).map(|_| ()));
                assert_eq!(intact, None, "byte {position} bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_of_another_log_or_segment_is_not_valid() {
        let bytes = encoded(&Codec::new(1, 2), b"payload");
        assert_eq!(Codec::new(1, 3).header(&bytes), None);
        assert_eq!(Codec::new(2, 2).header(&bytes), None);
    }

    #[test]
    fn a_payload_of_zeros_is_not_stored_as_zeros() {
        let bytes = encoded(&Codec::new(0, 0), &[0; 2048]);
        assert!(bytes.chunks(8).all(|chunk| chunk.iter().any(|byte| *byte != 0)));
    }
}
