//! RFC 8259: what must be taken is taken, what must be refused is refused, and two equal members are refused.
use crate::vectors;
use ringfence_protocol::json::is_strict_json;
use std::{fs, path::Path};

/// RFC 8259 leaves these to the reader; RFC 7493 and this project refuse them.
const DUPLICATES: [&str; 2] = ["y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"];

fn files(folder: &Path) -> impl Iterator<Item = (String, Vec<u8>)> {
    fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    })
}

#[test]
fn json_is_read_as_the_standard_says() {
    let Some(folder) = vectors("JSONTestSuite") else {
        return;
    };
    let mut seen = (0, 0);
    for (name, bytes) in files(&folder.join("test_parsing")) {
        let taken = is_strict_json(&bytes);
        match name.split('_').next().unwrap() {
            "y" => {
                assert_eq!(taken, !DUPLICATES.contains(&name.as_str()), "{name}");
                seen.0 += 1;
            }
            "n" => {
                assert!(!taken, "{name}");
                seen.1 += 1;
            }
            // Left to the reader: it must only not fall over.
            _ => {}
        }
    }
    assert!(seen.0 > 90 && seen.1 > 180, "{seen:?}");
}

#[test]
fn equal_members_are_refused_and_members_that_only_look_alike_are_not() {
    let Some(folder) = vectors("JSONTestSuite") else {
        return;
    };
    for (name, bytes) in files(&folder.join("test_transform")) {
        if name.starts_with("object_same_key") {
            assert!(!is_strict_json(&bytes), "{name}");
        } else if name.starts_with("object_key_nf") {
            // No Unicode normalisation: these are two members.
            assert!(is_strict_json(&bytes), "{name}");
        }
    }
}
