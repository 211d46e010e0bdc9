//! Frames: four bytes of length, little endian, then that many bytes of postcard.
use serde::{Serialize, de::DeserializeOwned};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes of a frame: a full batch of the largest commands fits.
pub(super) const MAX_FRAME_BYTES: usize = 80 << 20;
const LENGTH_BYTES: usize = 4;

/// Appends one frame to `buffer`.
///
/// # Errors
/// Where the value can't be encoded or is larger than a frame.
pub(super) fn push<T: Serialize>(buffer: &mut Vec<u8>, value: &T) -> io::Result<()> {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; LENGTH_BYTES]);
    let encoded = postcard::to_extend(value, std::mem::take(buffer));
    *buffer = encoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    let length = buffer.len() - start - LENGTH_BYTES;
    let prefix = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME_BYTES);
    let prefix = prefix.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, too_large(length)))?;
    buffer[start..start + LENGTH_BYTES].copy_from_slice(&prefix.to_le_bytes());
    Ok(())
}

/// Reads one frame; `None` where the other side has closed the connection between two frames.
///
/// # Errors
/// Where the connection breaks, or the frame is too large or is not a `T`.
pub(super) async fn read<T: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<T>> {
    let mut prefix = [0; LENGTH_BYTES];
    if let Err(error) = reader.read_exact(&mut prefix).await {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
    }
    let length = usize::try_from(u32::from_le_bytes(prefix)).unwrap_or(usize::MAX);
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, too_large(length)));
    }
    buffer.clear();
    // The length is only a claim until the bytes are there: memory grows with what has really come.
    let read = reader.take(u64::try_from(length).unwrap_or(u64::MAX)).read_to_end(buffer).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let value = postcard::from_bytes(buffer).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes can't be decoded: {error}"),
        )
    })?;
    Ok(Some(value))
}

fn too_large(length: usize) -> String {
    format!("a frame of {length} bytes is larger than {MAX_FRAME_BYTES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_read_back_in_order_and_then_the_end() {
        let mut bytes = Vec::new();
        push(&mut bytes, &("one", 1_u64)).unwrap();
        push(&mut bytes, &("two", 2_u64)).unwrap();
        let (mut reader, mut buffer) = (bytes.as_slice(), Vec::new());
        assert_eq!(read(&mut reader, &mut buffer).await.unwrap(), Some(("one".to_string(), 1_u64)));
        assert_eq!(read(&mut reader, &mut buffer).await.unwrap(), Some(("two".to_string(), 2_u64)));
        assert_eq!(read::<(String, u64)>(&mut reader, &mut buffer).await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_cut_short_too_large_or_something_else_is_an_error() {
        let mut whole = Vec::new();
        push(&mut whole, &"text").unwrap();
        let huge = [0xff_u8; 8];
        for bytes in [&whole[..whole.len() - 1], &huge[..]] {
            assert!(read::<String>(&mut &*bytes, &mut Vec::new()).await.is_err());
        }
        let mut other = Vec::new();
        push(&mut other, &[0xff_u8; 3]).unwrap();
        assert!(read::<(String, u64)>(&mut other.as_slice(), &mut Vec::new()).await.is_err());
    }
}
