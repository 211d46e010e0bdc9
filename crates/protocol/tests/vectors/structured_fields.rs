//! RFC 9651 strings, as `Idempotency-Key` takes them.
use crate::{read_json, vectors};
use ringfence_protocol::idempotency::IdempotencyKey;

#[test]
fn a_key_that_is_a_structured_field_string_is_read_as_the_standard_says() {
    let Some(folder) = vectors("structured-fields") else {
        return;
    };
    let mut seen = 0;
    for file in ["string.json", "string-generated.json"] {
        for case in read_json(&folder.join(file)).as_array().unwrap() {
            let raw = case["raw"].as_array().unwrap();
            let [raw] = raw.as_slice() else { continue };
            let raw = raw.as_str().unwrap();
            let expected = case["expected"][0].as_str();
            let fits = expected.is_some_and(|key| (1..=255).contains(&key.len()));
            // Bare text is our own addition and no structured-field string.
            if case["header_type"] != "item" || !raw.trim_start().starts_with('"') {
                continue;
            }
            seen += 1;
            match IdempotencyKey::from_header(raw.as_bytes()) {
                Ok(key) => assert_eq!(Some(key.as_str()), expected, "{}", case["name"]),
                Err(_) => assert!(!fits, "{}", case["name"]),
            }
        }
    }
    assert!(seen > 200, "{seen}");
}
