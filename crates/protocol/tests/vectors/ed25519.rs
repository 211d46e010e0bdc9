//! Ed25519 signatures: known answers, edge cases on which libraries differ, and an RFC 8037 example.
use crate::{hex, read_json, vectors};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ringfence_protocol::jws::verify_raw;
use serde_json::Value;

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap()
}

fn key(bytes: Vec<u8>) -> [u8; 32] {
    bytes.try_into().unwrap()
}

#[test]
fn signatures_that_are_valid_hold_and_all_others_do_not() {
    let Some(folder) = vectors("wycheproof") else {
        return;
    };
    let document = read_json(&folder.join("testvectors_v1/ed25519_test.json"));
    let (mut valid, mut invalid) = (0, 0);
    for group in document["testGroups"].as_array().unwrap() {
        let public = key(hex(text(&group["publicKey"], "pk")));
        for case in group["tests"].as_array().unwrap() {
            let holds = verify_raw(&public, &hex(text(case, "msg")), &hex(text(case, "sig")));
            let expected = text(case, "result") == "valid";
            assert_eq!(holds, expected, "case {}: {}", case["tcId"], case["comment"]);
            if expected { valid += 1 } else { invalid += 1 }
        }
    }
    assert_eq!((valid, invalid), (88, 63));
}

#[test]
fn edge_cases_on_which_verifiers_differ_are_decided_strictly() {
    let Some(folder) = vectors("cctv-ed25519") else {
        return;
    };
    let document = read_json(&folder.join("ed25519/ed25519vectors.json"));
    let mut accepted = 0;
    for case in document.as_array().unwrap() {
        let public = key(hex(text(case, "key")));
        let holds = verify_raw(&public, text(case, "msg").as_bytes(), &hex(text(case, "sig")));
        let flags: Vec<&str> =
            case["flags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if holds {
            accepted += 1;
            for refused in ["low_order_A", "low_order_R", "non_canonical_A", "non_canonical_R"] {
                assert!(!flags.contains(&refused), "case {}: {flags:?}", case["number"]);
            }
        }
    }
    // As many as the strict verification of ed25519-dalek 3.0 takes; its lenient one takes 208.
    assert_eq!((document.as_array().unwrap().len(), accepted), (914, 43));
}

#[test]
fn the_signature_of_the_rfc_8037_example_holds() {
    let Some(folder) = vectors("jose-cookbook") else {
        return;
    };
    let document = read_json(&folder.join("curve25519/jws.json"));
    let public = key(URL_SAFE_NO_PAD.decode(text(&document["input"]["key"], "x")).unwrap());
    let signature = URL_SAFE_NO_PAD.decode(text(&document["signing"], "sig")).unwrap();
    let signed = text(&document["signing"], "sig-input").as_bytes();
    assert!(verify_raw(&public, signed, &signature));
    assert!(!verify_raw(&public, &signed[1..], &signature));
}
