//! How a snapshot looks on the disk.
//!
//! ```text
//! header   magic 8 · format u32 · meta length u32 · index u64 · meta CRC u32 · header CRC u32
//! meta     as many bytes as the header says
//! block    length u32 (1 to 65,536) · CRC u32 over number, length and data · data                   any number
//! footer   0 u32 · data CRC u32 · block count u64 · data length u64 · footer CRC u32        (all little-endian)
//! ```
//!
//! A length of 0 where a block would begin means the footer. The place of magic and format is the same in every
//! format, present and future; a format with another header keeps its length and the checksum at its end.

use crate::storage::durable::UNFINISHED_SUFFIX;
use crate::storage::fields::{u32_at, u64_at};

/// The most data in one block.
pub const BLOCK_BYTES: usize = 64 << 10;
/// The most bytes of meta.
pub(super) const MAX_META_BYTES: usize = 16 << 20;

pub(super) const FORMAT: u32 = 1;
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const BLOCK_HEADER_BYTES: usize = 8;
pub(super) const FOOTER_BYTES: usize = 28;

const MAGIC: [u8; 8] = *b"RINGFSNP";
const PREFIX: &str = "snapshot-";
const SUFFIX: &str = ".snap";
const INDEX_DIGITS: usize = 20;
const MAX_ID_CHARS: usize = 64;

/// The fixed part of a file's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) format: u32,
    pub(super) meta_len: u32,
    pub(super) index: u64,
    pub(super) meta_crc: u32,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.format.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.meta_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.index.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.meta_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header in `bytes`, of whatever format, if it is one and matches its checksum.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let is_intact = bytes[..8] == MAGIC && crc32c::crc32c(&bytes[..28]) == u32_at(bytes, 28);
        is_intact.then(|| Self {
            format: u32_at(bytes, 8),
            meta_len: u32_at(bytes, 12),
            index: u64_at(bytes, 16),
            meta_crc: u32_at(bytes, 24),
        })
    }
}

/// What the blocks read or written so far add up to; at the end, the footer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) data_crc: u32,
    pub(super) blocks: u64,
    pub(super) data_len: u64,
}

impl Totals {
    /// Takes the next block into account.
    pub(super) fn add(&mut self, data: &[u8]) {
        self.data_crc = crc32c::crc32c_append(self.data_crc, data);
        self.blocks += 1;
        self.data_len += data.len() as u64;
    }

    /// The checksum of the block that comes next.
    pub(super) fn next_block_crc(&self, data: &[u8]) -> u32 {
        let number = crc32c::crc32c(&self.blocks.to_le_bytes());
        let length = crc32c::crc32c_append(number, &(data.len() as u64).to_le_bytes());
        crc32c::crc32c_append(length, data)
    }

    pub(super) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[4..8].copy_from_slice(&self.data_crc.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.data_len.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..24]);
        bytes[24..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The name of a finished snapshot.
pub(super) fn file_name(index: u64, id: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let id: String =
        id.chars().take(MAX_ID_CHARS).map(|letter| if keep(letter) { letter } else { '_' }).collect();
    format!("{PREFIX}{index:0width$}-{id}{SUFFIX}", width = INDEX_DIGITS)
}

/// The name under which writer `number` writes the snapshot `name`.
pub(super) fn unfinished_name(name: &str, number: u64) -> String {
    format!("{name}.{number}{UNFINISHED_SUFFIX}")
}

/// The index in the name of a finished snapshot; `None` if the name is not one.
pub(super) fn index_in_name(name: &str) -> Option<u64> {
    let (index, _id) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    (index.len() == INDEX_DIGITS).then(|| index.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_the_index_and_a_harmless_id() {
        let name = file_name(42, "T1-N2/../é x");
        assert_eq!(name, "snapshot-00000000000000000042-T1-N2_..___x.snap");
        assert_eq!(index_in_name(&name), Some(42));
        assert_eq!(index_in_name(&file_name(u64::MAX, "")), Some(u64::MAX));
        assert_eq!(index_in_name(&unfinished_name(&name, 1)), None);
        assert_eq!(index_in_name("snapshot-42-x.snap"), None);
        assert!(file_name(1, &"x".repeat(1000)).len() < 128);
    }
}
