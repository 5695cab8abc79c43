//! The native part of the Python package `seekless`: reads traces into Arrow tables, and calls
//! the studies. Results leave as the JSON of the command line, so numbers are the same to the last
//! digit. The package beside this folder makes dataclasses of them.
//!
//! Work runs on a thread of its own, without the GIL. The calling thread watches for signals and
//! calls the progress function.

mod errors;
mod study;
mod table;
mod trace;
mod work;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("OPTIONS", seekless_compare::KEYS.to_vec())?;
    module.add_class::<trace::Trace>()?;
    module.add_function(wrap_pyfunction!(study::disks, module)?)?;
    module.add_function(wrap_pyfunction!(study::disk, module)?)
}
