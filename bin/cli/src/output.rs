//! Output: results to standard output or a file, everything else to standard error. Only terminals
//! get progress bars.

use std::borrow::Borrow;
use std::fs::{self, Permissions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use seekless_report::{Report, Table, visible};
use seekless_trace::TraceError;
use seekless_trace::whole_file::{self, folder};
use tempfile::NamedTempFile;

pub use seekless_trace::whole_file::part;

/// The meaning of the exit status, at the end of `--help` and of the man page.
pub const STATUS: &str = "\
Exit status:
  0  the command did its work, or you ended it
  2  a bad command line, bad input, or a failed run: standard error says where, and what to do

Results go to standard output, everything else to standard error. NO_COLOR turns colours off.";

/// The exit status of a command, after its error was printed to standard error.
pub fn exit(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a trace closed the pipe (`| head`): no fault.
        Err(error) if is_unread_trace(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let program = std::env::args_os().next().unwrap_or_default();
            let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
            say(&format!("{program}: {error:#}"));
            // Bad input and a failed run alike: 2, as for a bad command line.
            ExitCode::from(2)
        }
    }
}

/// A line on standard error. Names from outside control no terminal.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(text));
}

/// The notes of a result, on standard error.
pub fn notes(notes: &[String]) {
    notes.iter().for_each(|note| say(&format!("note: {note}")));
}

/// Text on standard output. If its reader has closed the pipe (`| head`), the text is lost, and the
/// command goes on: the exit status tells the result of its work.
pub fn print(text: &str) -> anyhow::Result<()> {
    put(io::stdout().lock(), text).context("cannot write to standard output")
}

fn put(mut out: impl Write, text: &str) -> io::Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{end}").and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A stream of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnStream {
    Out,
    Err,
}

impl OwnStream {
    /// The stream that a path names, such as `-` or `/dev/stderr`. Behind it may be a file, which must
    /// not be replaced: more output follows, and the file may have no name any more.
    fn at(path: &Path) -> Option<Self> {
        if path.as_os_str() == "-" {
            return Some(Self::Out);
        }
        match whole_file::open_file(path)? {
            1 => Some(Self::Out),
            2 => Some(Self::Err),
            _ => None,
        }
    }
}

/// Tables on standard output, as this terminal shows them.
pub fn tables<T: Borrow<Table>>(tables: impl IntoIterator<Item = T>) -> anyhow::Result<()> {
    let mut tables = tables.into_iter();
    tables.try_for_each(|table| {
        let table: &Table = table.borrow();
        print(&table.terminal(width(), colour()))
    })
}

/// Writes text to a file, whole or not at all; `-` is standard output. A link stays a link, and a
/// file keeps its mode, and its owner where this user may give files away.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    match OwnStream::at(path) {
        Some(OwnStream::Out) => return print(text),
        Some(OwnStream::Err) => {
            return put(io::stderr().lock(), text).context("cannot write to standard error");
        }
        None => {}
    }
    ensure_no_disk(path).map_err(anyhow::Error::msg)?;
    replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Gives a file these bytes, all or none. A pipe or a terminal is written, never replaced by a file.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.metadata().is_ok_and(|before| !before.is_file()) {
        return fs::write(path, bytes);
    }
    let mut file = part(path, Permissions::from_mode(0o666))?;
    if let Ok(before) = path.metadata() {
        let _ = fchown(file.as_file(), Some(before.uid()), Some(before.gid()));
        file.as_file().set_permissions(before.permissions())?;
    }
    file.write_all(bytes)?;
    whole_file::finish(file, path).map(drop)
}

/// Refuses an output that is also another output or an input, before the work whose result it gets.
pub fn ensure_apart<'a>(
    outputs: impl IntoIterator<Item = Option<&'a Path>>,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    let at = |path: &Path| {
        let new = || Some(folder(path).canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(new).unwrap_or_else(|| path.to_owned())
    };
    let inputs = inputs.into_iter().filter(|path| path.as_os_str() != "-");
    let mut taken: Vec<PathBuf> = inputs.map(at).collect();
    for path in outputs.into_iter().flatten() {
        // A pipe or a terminal takes any number of outputs; a disk does not.
        let kind = path.metadata().map(|m| m.file_type());
        let shares = kind.is_ok_and(|k| !k.is_file() && !k.is_block_device());
        anyhow::ensure!(
            shares || !taken.contains(&at(path)),
            "{} is named twice: give each output a different name",
            path.display()
        );
        taken.push(at(path));
    }
    Ok(())
}

/// Refuses a path at which [`write`] will fail, before the work whose result it gets.
pub(crate) fn ensure_writable(path: &Path) -> Result<(), String> {
    if OwnStream::at(path).is_some() {
        return Ok(());
    }
    let real = whole_file::behind(path).map_err(|e| format!("cannot write it: {e}"))?;
    ensure_no_disk(path)?;
    match path.metadata().map(|m| m.file_type()) {
        Ok(kind) if kind.is_dir() => {
            return Err("cannot write it: it is a folder; name a file in it".to_owned());
        }
        // A pipe or a terminal is written itself.
        Ok(kind) if !kind.is_file() => return Ok(()),
        _ => {}
    }
    ensure_writable_folder(folder(&real))
}

/// Refuses a folder in which no file can be made.
pub(crate) fn ensure_writable_folder(folder: &Path) -> Result<(), String> {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| {
        let todo = if e == Errno::NOENT { "; make that folder first" } else { "" };
        format!("cannot write into {}: {}{todo}", folder.display(), io::Error::from(e))
    })
}

/// Refuses a disk, also behind a link. Every output is checked here.
fn ensure_no_disk(path: &Path) -> Result<(), String> {
    if path.metadata().is_ok_and(|m| m.file_type().is_block_device()) {
        let path = path.display();
        return Err(format!(
            "cannot write {path}: it is a disk, whose data would be lost; name a file"
        ));
    }
    Ok(())
}

/// Refuses to replace a file, unless `force`, and a disk always. A dangling link counts as a file.
pub fn ensure_new(path: &Path, force: bool) -> anyhow::Result<()> {
    ensure_no_disk(path).map_err(anyhow::Error::msg)?;
    let exists = path.symlink_metadata().is_ok_and(|m| m.is_file() || m.is_symlink());
    anyhow::ensure!(
        force || !exists,
        "{} exists; give --force to replace it, or another name",
        path.display()
    );
    Ok(())
}

/// Makes a file durable, then gives the file its name, durably too.
pub fn keep(file: NamedTempFile, path: &Path) -> io::Result<()> {
    let path = whole_file::finish(file, path)?;
    fs::File::open(folder(&path))?.sync_all()
}

/// Writes a report as one HTML file, and its figures into a folder, each if it was asked for.
pub fn report(report: &Report, html: Option<&Path>, folder: Option<&Path>) -> anyhow::Result<()> {
    html.map_or(Ok(()), |path| write(path, &report.html()))?;
    folder.map_or(Ok(()), |dir| figures(dir, report))
}

/// Writes a document as JSON to a file; `-` is standard output.
pub fn json(path: &Path, document: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document).context("cannot write JSON")?;
    write(path, &text)
}

/// Writes a document as JSON if that was asked for. False if it went to standard output.
pub fn json_beside(path: Option<&Path>, document: &impl serde::Serialize) -> anyhow::Result<bool> {
    path.map_or(Ok(()), |path| json(path, document))?;
    Ok(!is_stdout(path))
}

/// Whether this path is standard output.
pub fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|p| p.as_os_str() == "-")
}

/// Writes every figure of a report into a folder; a note names pictures that could not be drawn.
pub fn figures(dir: &Path, report: &Report) -> anyhow::Result<()> {
    let save = |path: &Path, bytes: &[u8]| {
        ensure_no_disk(path).map_err(io::Error::other)?;
        replace(path, bytes)
    };
    if let Some(why) = report.export(dir, save)? {
        say(&format!("note: {}: no PNG files: {why}; SVG and CSV are complete", dir.display()));
    }
    Ok(())
}

/// Whether this is a trace for standard output whose reader has closed its end.
fn is_unread_trace(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<TraceError>(),
        Some(TraceError::WriteFailed { path, source })
            if path.as_os_str() == "-" && source.kind() == io::ErrorKind::BrokenPipe
    )
}

/// Columns of the terminal on standard output; 120 if there is no terminal.
pub fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    asked.or_else(|| terminal_size::terminal_size().map(|(w, _)| w.0.into())).unwrap_or(120)
}

/// Whether standard output takes colour: a terminal, and `NO_COLOR` not set.
pub fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// A progress bar on standard error; silent if standard error is no terminal.
pub fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(8));
    if let Ok(style) = ProgressStyle::with_template("{msg:24} {bar:32} {percent:>3} %  {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

/// Calls `work` with a reporter of progress; the bar is gone when the work ends.
pub fn with_bar<T>(work: impl FnOnce(&(dyn Fn(&str, u64, u64) + Sync)) -> T) -> T {
    let bar = bar();
    let result = work(&|what, done, all| show(&bar, what, done, all));
    bar.finish_and_clear();
    result
}

/// Shows the work at hand, the parts done, and all parts.
pub fn show(bar: &ProgressBar, what: &str, done: u64, all: u64) {
    bar.set_message(what.to_owned());
    bar.set_length(all.max(1));
    bar.set_position(done);
}

/// A line on standard error that is rewritten in place; silent if standard error is no terminal.
pub fn status_line() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        line.set_style(style);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use rustix::fs::{CWD, Mode};
    use seekless_report::{Axis, Basis, Figure, Section, StackedBars, Unit, Values};

    use super::*;

    #[test]
    fn only_the_reader_of_standard_output_may_go_away() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let trace = |path: &str| TraceError::WriteFailed { path: path.into(), source: closed() };
        assert_eq!(exit(Err(trace("-").into())), ExitCode::SUCCESS);
        assert_eq!(exit(Err(trace("fifo").into())), ExitCode::from(2));
        let server = anyhow::Error::new(closed()).context("the server did not answer");
        assert_eq!(exit(Err(server)), ExitCode::from(2));
    }

    #[test]
    fn a_file_is_replaced_behind_its_link_and_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["a", "a.part", "b.part"] {
            fs::write(at(name), "mine").unwrap();
        }
        fs::set_permissions(at("a"), Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        write(&at("link"), "new").unwrap();
        write(&at("b"), "new").unwrap();
        std::os::unix::fs::symlink("c", at("dangling")).unwrap();
        write(&at("dangling"), "new").unwrap();
        assert!(at("link").is_symlink() && at("dangling").is_symlink());
        assert_eq!(at("a").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        let read = |name| fs::read_to_string(at(name)).unwrap();
        assert_eq!(["a", "b", "c"].map(read), ["new"; 3]);
        assert_eq!(["a.part", "b.part"].map(read), ["mine"; 2]);
        assert_eq!(dir.path().read_dir().unwrap().count(), 7);
    }

    /// Its figure is in the files `01-title`.
    fn with_figure() -> Report {
        let bars = StackedBars {
            axis: Axis::new("Busy", Unit::Seconds),
            parts: vec!["seek".into()],
            bars: vec![Values::new("vanilla", [1.0])],
        };
        let figure = Figure::new("Title", Basis::Synthetic, bars);
        Report::new("A", "B").section(Section::new("C").figure(figure))
    }

    #[test]
    fn a_pipe_in_place_of_a_figure_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let svg = dir.path().join("01-title.svg");
        rustix::fs::mkfifoat(CWD, &svg, Mode::RUSR | Mode::WUSR).unwrap();
        let pipe = svg.clone();
        let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
        figures(dir.path(), &with_figure()).unwrap();
        // Before the reader: it would wait for ever.
        assert!(svg.metadata().unwrap().file_type().is_fifo(), "replaced by a file");
        assert!(reader.join().unwrap().contains("<svg"));
    }

    #[test]
    fn a_figure_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let svg = dir.path().join("01-title.svg");
        fs::write(&svg, "old").unwrap();
        let mut before = fs::File::open(&svg).unwrap();
        figures(dir.path(), &with_figure()).unwrap();
        let mut old = String::new();
        before.read_to_string(&mut old).unwrap();
        assert_eq!(old, "old", "written in place: a kill would leave a part of it");
        assert!(fs::read_to_string(&svg).unwrap().contains("<svg"));
    }

    #[test]
    fn a_link_of_another_user_is_refused_before_the_work() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED links of another user: not root");
        }
        let dir = tempfile::tempdir().unwrap();
        let (mine, link) = (dir.path().join("mine"), dir.path().join("link"));
        fs::write(&mine, "old").unwrap();
        std::os::unix::fs::symlink("mine", &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        let said = ensure_writable(&link).unwrap_err();
        assert!(said.contains("a link of another user"), "{said}");
        write(&link, "new").unwrap_err();
        assert_eq!(fs::read_to_string(&mine).unwrap(), "old");
    }

    #[test]
    fn a_disk_is_no_output() {
        let kind = |path: &Path| path.metadata().map(|m| m.file_type());
        for path in fs::read_dir("/dev").unwrap().map(|entry| entry.unwrap().path()) {
            if kind(&path).is_ok_and(|k| k.is_block_device()) {
                let new = |force| ensure_new(&path, force).unwrap_err().to_string();
                for refused in [ensure_writable(&path).unwrap_err(), new(false), new(true)] {
                    assert!(refused.contains("is a disk"), "{}: {refused}", path.display());
                }
            }
        }
        assert_eq!(ensure_writable(Path::new("/dev/null")), Ok(()));
        assert!(ensure_new(Path::new("/dev/null"), false).is_ok());
    }

    #[test]
    fn no_output_is_another_one_or_an_input() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "").unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        let [a, link, new] = ["a", "link", "new"].map(at);
        let (a, link, new) = (a.as_path(), link.as_path(), new.as_path());
        let dash = Path::new("-");
        for (outputs, input, apart) in [
            ([Some(new), Some(dash)], a, true),
            ([Some(dash), None], dash, true),
            ([Some(Path::new("/dev/null")); 2], a, true),
            ([None, Some(link)], a, false),
            ([Some(new); 2], a, false),
            ([Some(dash); 2], a, false),
        ] {
            assert_eq!(ensure_apart(outputs, [input]).is_ok(), apart, "{outputs:?} {input:?}");
        }
    }
}
