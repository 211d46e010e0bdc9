//! Torn or damaged? What a bad group at the end of the log means.
//!
//! A power cut while the last group is written leaves it *torn*: some of its sectors are new, the others still zero,
//! in any order. Nothing of it was acknowledged: it is cut off. A *damaged* group had been written whole: cutting it
//! off would lose what was acknowledged, so the node must not start. They are told apart so:
//!
//! 1. Anything of a later group behind the bad one: damaged. A group is written only after the one before it is
//!    durable.
//! 2. Else, some sector that the group should cover is still all zero, or its first or last 8 bytes are: torn. No
//!    sector of a written group is zero (see [`super::record`]).
//! 3. Else every sector was written: damaged.
//!
//! # What cannot be told apart
//!
//! The rules assume that a sector is written whole or not at all, and that damage changes bytes rather than zeroing
//! them. So these are taken for torn, and acknowledged records are lost, if they hit the **last** group:
//!
//! - A whole sector of it (or its first or last 8 bytes) becomes zero, or the file system loses a page of it.
//! - It is damaged, and the group behind it was torn such that none of *its* record headers was written.
//! - The file is put back to an older state (a restored disk image): nothing inside a log shows that.
//!
//! In any earlier group, all of these are found. The other way round, a disk that tears sectors can make a torn
//! group look damaged: the node then refuses to start although nothing was lost.

use std::ops::Range;

use super::record::{ALIGNMENT, Codec, Header, RECORD_HEADER};
use super::segment::SECTOR;

/// What a bad group at the end of a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Never written whole: to be cut off.
    Torn,
    /// Traces of a later group follow.
    Followed,
    /// Written whole, then damaged.
    Whole,
}

/// Judges the bad group `group` that starts at `start` of a segment's `bytes`.
pub(super) fn judge(codec: &Codec, bytes: &[u8], start: usize, group: u64) -> Tail {
    let headers = || headers_from(codec, bytes, start);
    if headers().any(|(_, header)| header.group != group) {
        return Tail::Followed;
    }
    let written_end = end_of_written(bytes);
    let known_end = headers().map(|(at, header)| at.saturating_add(header.group_left)).next();
    let end = match known_end {
        Some(end) if end > bytes.len() || end < written_end => return Tail::Followed,
        Some(end) => end,
        // No header left to say how long the group is: at least one record, and up to the last byte that is there.
        None => written_end.max(start + RECORD_HEADER + ALIGNMENT).min(bytes.len()),
    };
    if has_hole(bytes, start..end) { Tail::Torn } else { Tail::Whole }
}

/// Every good header from `start` on. Each possible place is tried: the lengths in between may be damaged.
fn headers_from<'a>(
    codec: &'a Codec,
    bytes: &'a [u8],
    start: usize,
) -> impl Iterator<Item = (usize, Header)> + 'a {
    (start..bytes.len())
        .step_by(ALIGNMENT)
        .filter_map(move |at| codec.header(&bytes[at..]).map(|header| (at, header)))
}

/// The end of the last 8 bytes that are not all zero.
pub(super) fn end_of_written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).next_multiple_of(ALIGNMENT))
}

/// Whether some part of `area` was never written: its first or last bytes, or what it covers of some sector.
fn has_hole(bytes: &[u8], area: Range<usize>) -> bool {
    let edges = [area.start..area.start + ALIGNMENT, area.end - ALIGNMENT..area.end];
    let sectors = (area.start / SECTOR * SECTOR..area.end)
        .step_by(SECTOR)
        .map(|sector| sector.max(area.start)..(sector + SECTOR).min(area.end));
    sectors.chain(edges).any(|part| bytes[part].iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::log::record::{Frame, Kind};

    const START: usize = 600;

    fn codec() -> Codec {
        Codec::new(1, 1)
    }

    /// A segment whose bad group 5 starts at [`START`]: three entries over several sectors.
    fn image() -> (Vec<u8>, Range<usize>) {
        let payloads = [vec![0; 700], vec![1; 20], vec![2; 900]];
        let frames: Vec<_> =
            payloads.iter().map(|payload| Frame { kind: Kind::Entry, index: 1, payload }).collect();
        let mut bytes = vec![0; START];
        codec().encode_group(5, &frames, &mut bytes);
        let end = bytes.len();
        bytes.resize(8192, 0);
        (bytes, START..end)
    }

    #[test]
    fn any_changed_byte_of_a_written_group_leaves_it_whole() {
        let (good, area) = image();
        for position in area {
            let mut bytes = good.clone();
            bytes[position] = 0;
            assert_eq!(judge(&codec(), &bytes, START, 5), Tail::Whole, "byte {position}");
        }
    }

    #[test]
    fn a_group_cut_anywhere_before_its_last_bytes_is_torn() {
        let (good, area) = image();
        for cut in area.start..=area.end - ALIGNMENT {
            let mut bytes = good.clone();
            bytes[cut..].fill(0);
            assert_eq!(judge(&codec(), &bytes, START, 5), Tail::Torn, "cut at {cut}");
        }
    }

    #[test]
    fn a_group_that_lacks_any_one_sector_is_torn() {
        let (good, area) = image();
        for sector in (0..area.end).step_by(SECTOR).filter(|sector| sector + SECTOR > area.start) {
            let mut bytes = good.clone();
            bytes[sector.max(START)..sector + SECTOR].fill(0);
            assert_eq!(judge(&codec(), &bytes, START, 5), Tail::Torn, "sector at {sector}");
        }
    }

    #[test]
    fn traces_of_a_later_group_mean_damage_even_if_a_sector_is_zero() {
        let (mut bytes, area) = image();
        let mut later = Vec::new();
        codec().encode_group(6, &[Frame { kind: Kind::Vote, index: 0, payload: b"x" }], &mut later);
        bytes[area.end..area.end + later.len()].copy_from_slice(&later);
        bytes[START..START + SECTOR].fill(0);
        assert_eq!(judge(&codec(), &bytes, START, 5), Tail::Followed);
    }

    #[test]
    fn bytes_behind_the_end_of_the_group_mean_damage() {
        let (mut bytes, area) = image();
        bytes[area.start + RECORD_HEADER] ^= 1;
        bytes[area.end + 100] = 1;
        assert_eq!(judge(&codec(), &bytes, START, 5), Tail::Followed);
    }
}
