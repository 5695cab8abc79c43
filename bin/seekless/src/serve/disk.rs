//! The argument that names an emulated disk.

use std::str::FromStr;

use seekless_serve::HostQueue;

/// `NAME[,speed=X]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Emulated {
    /// A name of the catalogue, or the path of a file.
    pub(crate) name: String,
    /// Times faster than the real one.
    pub(crate) speed: f64,
    pub(crate) host: Option<HostQueue>,
}

impl FromStr for Emulated {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, options) = text.split_once(',').unwrap_or((text, "speed=1"));
        let speed = options
            .strip_prefix("speed=")
            .and_then(|s| s.parse::<f64>().ok())
            .filter(|s| (0.001..=1e6).contains(s))
            .ok_or_else(|| {
                format!(
                    "'{options}' is not an option of --disk: write speed=X, with X from 0.001 to 1000000"
                )
            })?;
        if name.is_empty() {
            return Err("the disk has no name; see `seekless disk list`".to_owned());
        }
        Ok(Self { name: name.to_owned(), speed, host: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_as_people_write_them() {
        let disk = |name: &str, speed| Ok(Emulated { name: name.to_owned(), speed, host: None });
        assert_eq!("wd800jb".parse(), disk("wd800jb", 1.0));
        assert_eq!("./my.toml,speed=0.5".parse(), disk("./my.toml", 0.5));
        for text in ["", ",speed=2", "a,speed=0", "a,speed=nan", "a,speed=inf", "a,fast", "a,"] {
            assert!(text.parse::<Emulated>().is_err(), "{text}");
        }
    }
}
