//! Enums whose values have a name on the command line or in a file.

/// `named!(Type: Variant = "name", ...)` gives `ALL`, `name`, `Display` and `FromStr`; with `names`
/// before the type, all but `FromStr`.
#[macro_export]
macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        $crate::named!(names $type: $($variant = $name),+);

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.into_iter().find(|value| value.name() == text).ok_or_else(|| {
                    format!("'{text}' is none of these: {}", [$($name),+].join(", "))
                })
            }
        }
    };
    (names $type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name, as on the command line and in files.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
