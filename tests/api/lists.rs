use crate::world::World;
use serde_json::{Value, json};

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_follow_each_other_without_gaps_and_end() {
    let world = World::start().await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(world.run().await.id);
    }
    runs.sort();
    let (mut listed, mut sizes, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let path = format!("/v1/runs?limit=2{cursor}");
        let page = world.get(&path).by(&world.orchestrator).send().await.done(200);
        sizes.push(ids(&page).len());
        listed.extend(ids(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!((listed, sizes), (runs, vec![2, 2, 1]));
}

#[tokio::test]
async fn runs_and_leases_are_found_by_what_they_are() {
    let world = World::start().await;
    let (a, b) = (world.run().await, world.run().await);
    let held = world.lease(&a, "config/eu/x").await;
    let released = world.lease(&b, "config/us/x").await;
    let released_path = format!("/v1/leases/{}", released["id"].as_str().unwrap());
    world.delete(&released_path).by(&b.token).send().await.done(200);
    let end = world.post(&format!("/v1/runs/{}/end", b.id), &json!({"reason": "done"}));
    end.by(&b.token).send().await.done(200);

    let find = |path: String| {
        let ask = world.get(&path).by(&world.target);
        async { ids(&ask.send().await.done(200)) }
    };
    let (held, released) = (held["id"].as_str().unwrap(), released["id"].as_str().unwrap());
    assert_eq!(find("/v1/runs?state=active".into()).await, [a.id.as_str()]);
    assert_eq!(find("/v1/runs?state=ended".into()).await, [b.id.as_str()]);
    assert_eq!(find("/v1/leases?state=held".into()).await, [held]);
    assert_eq!(find(format!("/v1/leases?run={}", b.id)).await, [released]);
    assert_eq!(find("/v1/leases?scope=config/eu/**".into()).await, [held]);
    assert_eq!(find("/v1/leases?scope=config%2Fus%2Fx".into()).await, [released]);
    assert_eq!(find("/v1/leases?scope=config/eu/y&state=held".into()).await, [] as [&str; 0]);
}
