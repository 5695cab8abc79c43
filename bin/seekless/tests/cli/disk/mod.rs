//! `seekless disk` through the binary, as a person or a script uses it: what it prints, what it
//! refuses.

mod faults;
mod fit;
