//! Policies are read as they are written, and errors name what is allowed.

use super::*;

#[test]
fn every_policy_is_read_as_it_is_written() {
    for (i, entry) in POLICIES.iter().enumerate() {
        let policy = Policy::new(entry.name);
        assert_eq!(entry.name.entry().name, entry.name);
        assert_eq!(entry.name.name().parse(), Ok(policy));
        assert_eq!(policy.to_string(), entry.name.name());
        assert!(POLICIES[..i].iter().all(|p| p.name != entry.name));
        // Every key takes its own default, which is then not shown.
        let all: String =
            entry.keys.iter().map(|k| format!(":{}={}", k.text(), policy.value(*k))).collect();
        assert_eq!(format!("{}{all}", entry.name.name()).parse(), Ok(policy));
    }
    for key in KEYS {
        assert_eq!(key.key.entry().text, key.text);
        assert!(POLICIES.iter().any(|p| p.keys.contains(&key.key)), "{}", key.text);
    }
}

#[test]
fn settings_are_read_and_shown() {
    let text = "borg:order=many-starts:training=decaying:planning=anew:min-weight=3:streams=one:area-at=end";
    let policy: Policy = text.parse().unwrap();
    assert_eq!((policy.order, policy.training), (Strategy::ManyStarts, Training::Decaying));
    assert_eq!((policy.planning, policy.min_weight), (Planning::Anew, 3));
    assert_eq!((policy.streams, policy.area_at), (Streams::One, AreaAt::End));
    assert_eq!(policy.to_string(), text);
    let far: Policy = "clairvoyant:area-at=disk-end".parse().unwrap();
    assert_eq!(
        (far.area_at, far.to_string().as_str()),
        (AreaAt::DiskEnd, "clairvoyant:area-at=disk-end")
    );
    let list = Policy::list("vanilla,adaptive:trail=off,fs2-proven:degree=2").unwrap();
    assert_eq!(
        list.iter().map(|p| (p.trail, p.degree)).collect::<Vec<_>>(),
        [(true, 1), (false, 1), (true, 2)]
    );
}

#[test]
fn values_in_the_table_are_all_there_are() {
    for order in Strategy::ALL {
        assert!(PolicyKey::Order.entry().values.contains(order.name()));
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    for training in Training::ALL {
        assert!(PolicyKey::Training.entry().values.contains(training.name()));
        assert_eq!(training.to_string().parse(), Ok(training));
    }
    for planning in Planning::ALL {
        assert!(PolicyKey::Planning.entry().values.contains(planning.name()));
        assert_eq!(planning.to_string().parse(), Ok(planning));
    }
    for at in AreaAt::ALL {
        assert!(PolicyKey::AreaAt.entry().values.contains(at.name()));
        assert_eq!(at.to_string().parse(), Ok(at));
    }
    assert!("daily".parse::<Training>().unwrap_err().contains("partial"));
}

#[test]
fn errors_say_which_key_and_what_is_allowed() {
    for (text, words) in [
        (
            "brog",
            &["'brog' is not a policy; the policies are", "vanilla, adaptive, clairvoyant, borg"][..],
        ),
        ("", &["'' is not a policy"]),
        ("borg:order", &["policy borg", "'order' is not a setting", "NAME:key=value"]),
        ("borg:speed=3", &["policy borg has no key 'speed'", "its keys: order, training"]),
        ("vanilla:order=lazy", &["policy vanilla has no key 'order'", "it has no keys"]),
        ("organ-pipe:order=lazy", &["organ-pipe has no key 'order'"]),
        ("borg:order=best", &["policy borg: order=best is not allowed", "many-starts"]),
        ("borg:training=partial:training=partial", &["key training is given twice"]),
        ("borg:min-weight=-1", &["min-weight=-1", "a number from 0"]),
        ("adaptive:trail=2", &["trail=2", "on or off"]),
        (
            "adaptive:area-at=median",
            &["area-at=median is not allowed", "not for a trail", "disk-end"],
        ),
        ("judged:allowance=5", &["policy judged is replaced", "--policy adaptive"]),
        ("oracle", &["policy oracle is replaced", "--policy clairvoyant"]),
        ("fs2:degree=0", &["degree=0", "from 1 to 16"]),
        ("fs2:degree=17", &["degree=17"]),
    ] {
        let error = text.parse::<Policy>().unwrap_err().to_string();
        assert!(words.iter().all(|w| error.contains(w)), "{text}: {error}");
    }
    assert!(Policy::list("borg,").is_err());
}

#[test]
fn a_served_volume_takes_what_it_can_run() {
    let refused = |text: &str| text.parse::<Policy>().unwrap().check_live().unwrap_err();
    assert!(refused("clairvoyant").to_string().contains("a served volume takes vanilla, adaptive"));
    assert!(refused("borg:area-at=end").to_string().contains("key area-at"));
    let far = refused("adaptive:area-at=disk-end").to_string();
    assert!(far.contains("key area-at is for simulations alone"), "{far}");
    assert!(refused("borg:streams=one").to_string().contains("key streams"));
    for text in ["vanilla", "borg:order=lazy", "adaptive:trail=off", "fs2-whole:degree=2"] {
        assert_eq!(text.parse::<Policy>().unwrap().check_live(), Ok(()), "{text}");
    }
}
