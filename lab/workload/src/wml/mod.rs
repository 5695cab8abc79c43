//! Filebench's language, as far as its shipped personalities use it, as a [`Personality`]. What it cannot say here is
//! refused by line and column, not passed over.

mod read;
mod words;
