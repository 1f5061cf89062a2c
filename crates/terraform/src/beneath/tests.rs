//! Attacks of a run on a directory handle.

use std::{fs as std_fs, os::unix::fs::symlink, path::PathBuf};

use proptest::prelude::*;

use super::*;

struct Case {
    folder: tempfile::TempDir,
    dir: Dir,
}

impl Case {
    /// A folder `in`, and beside it what must never be touched.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std_fs::create_dir_all(folder.path().join("out/deep")).expect("a folder");
        std_fs::write(folder.path().join("out/token"), "secret").expect("write");
        std_fs::write(folder.path().join("out/deep/file"), "kept").expect("write");
        let dir = Dir::make(&folder.path().join("in")).expect("made");
        Self { folder, dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn untouched(&self) {
        assert_eq!(std_fs::read_to_string(self.at("out/token")).expect("there"), "secret");
        assert_eq!(std_fs::read_to_string(self.at("out/deep/file")).expect("there"), "kept");
        assert_eq!(std_fs::read_dir(self.at("out")).expect("there").count(), 2, "nothing new");
    }
}

#[test]
fn links_are_replaced_and_never_followed() {
    let case = Case::new();
    symlink("../out/token", case.at("in/file")).expect("linked");
    symlink("../out", case.at("in/folder")).expect("linked");
    std_fs::hard_link(case.at("out/token"), case.at("in/hard")).expect("linked");
    for path in ["file", "folder/token", "hard"] {
        case.dir.read(Path::new(path), 1 << 20).expect_err(path);
    }
    case.dir.remove(Path::new("folder/token")).expect("gone, as far as this folder goes");
    for path in ["file", "folder/token", "hard"] {
        case.dir.write(Path::new(path), b"new").expect(path);
        assert_eq!(case.dir.read(Path::new(path), 1 << 20).expect(path).as_deref(), Some(&b"new"[..]));
    }
    symlink("../out", case.at("in/tree")).expect("linked");
    case.dir.remove(Path::new("tree")).expect("the link goes");
    symlink("../../out", case.at("in/folder/deeper")).expect("linked");
    case.dir.clear().expect("emptied");
    assert!(case.dir.names(1).expect("listed").is_empty());
    std_fs::remove_file(case.at("in/hard")).expect_err("gone");
    case.untouched();
}

#[test]
fn paths_that_lead_out_are_refused() {
    let case = Case::new();
    for path in ["../out/token", "/etc/passwd", "x/../../out/token", "..", ""] {
        case.dir.read(Path::new(path), 1 << 20).expect_err(path);
        case.dir.write(Path::new(path), b"x").expect_err(path);
        case.dir.remove(Path::new(path)).expect_err(path);
    }
    case.untouched();
}

#[test]
fn only_regular_files_of_a_size_are_read() {
    let case = Case::new();
    fs::mkfifoat(&case.dir.0, "fifo", Mode::RUSR | Mode::WUSR).expect("a FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(case.at("in/socket")).expect("a socket");
    std_fs::create_dir(case.at("in/folder")).expect("a folder");
    let endless = File::create(case.at("in/endless")).expect("a file");
    endless.set_len(1 << 40).expect("a long one");
    for path in ["fifo", "socket", "folder", "endless"] {
        case.dir.read(Path::new(path), 1 << 20).expect_err(path);
    }
    assert!(case.dir.read(Path::new("missing/file"), 1).expect("none").is_none());
    case.dir.write(Path::new("fifo"), b"a file now").expect("replaced");
    case.dir.write(Path::new("folder"), b"a file now").expect("replaced");
}

#[test]
fn a_tree_of_any_depth_is_removed() {
    let case = Case::new();
    let mut at = case.dir.again().expect("a handle");
    // Deeper than any path may be long, and than there are handles.
    for _ in 0..5000 {
        fs::mkdirat(&at.0, "d", Mode::RWXU).expect("a folder");
        at = Dir(fs::openat(&at.0, "d", FOLDER, Mode::empty()).expect("opened"));
    }
    at.write(Path::new("file"), b"x").expect("written");
    fs::fchmod(&at.0, Mode::empty()).expect("locked");
    for n in 0..3000 {
        case.dir.write(Path::new(&format!("wide/{n}")), b"").expect("written");
    }
    case.dir.clear().expect("emptied");
    assert!(case.dir.names(1).expect("listed").is_empty());
    case.untouched();
}

#[test]
fn names_that_are_taken_are_passed_over() {
    let case = Case::new();
    for n in 1..100 {
        case.dir.write(Path::new(&format!(".capt-gone-{n}")), b"").expect("written");
        case.dir.make_below(Path::new(&format!("a{n}/b/.capt-gone-{n}"))).expect("made");
        case.dir.write(Path::new(&format!(".capt-gone-{}/x/y", n + 100)), b"").expect("written");
        symlink("../out", case.at("in").join(format!(".capt-gone-{}", n + 200))).expect("linked");
    }
    case.dir.clear().expect("emptied");
    assert!(case.dir.names(1).expect("listed").is_empty());
    case.untouched();
}

#[test]
fn what_is_removed_by_its_path_is_no_more_than_that() {
    let case = Case::new();
    case.dir.write(Path::new("a/b/c"), b"x").expect("written");
    symlink("../../out", case.at("in/a/link")).expect("linked");
    fs::chmod(case.at("in/a"), Mode::empty()).expect("locked");
    symlink("out", case.at("link")).expect("linked");
    for name in ["in/a", "link", "missing", "missing/too"] {
        remove(&case.at(name)).expect(name);
        std_fs::symlink_metadata(case.at(name)).expect_err(name);
    }
    case.untouched();
}

#[test]
fn what_has_such_a_name_is_removed_and_the_rest_is_not_held() {
    let case = Case::new();
    for n in 0..3000 {
        let ending = if n % 2 == 0 { "tf" } else { "txt" };
        case.dir.write(Path::new(&format!("{n}.{ending}")), b"").expect("written");
    }
    case.dir.write(Path::new("folder.tf/x/y"), b"").expect("written");
    case.dir.remove_where(|name| name.as_bytes().ends_with(b".tf")).expect("removed");
    let left = case.dir.names(4000).expect("listed");
    assert_eq!(left.len(), 1500);
    assert!(left.iter().all(|name| name.as_bytes().ends_with(b".txt")));
    case.untouched();
}

#[test]
fn a_module_is_copied_with_its_own_links_only() {
    let case = Case::new();
    let module = Dir::make(&case.at("module")).expect("made");
    module.write(Path::new("main.tf"), b"# root").expect("written");
    module.write(Path::new("sub/x.tf"), b"# sub").expect("written");
    module.write(Path::new(".git/config"), b"x").expect("written");
    symlink("../main.tf", case.at("module/sub/main.tf")).expect("linked");
    let copied = copy_tree(&module, &case.dir).expect("copied");
    assert_eq!(copied, ["main.tf", "sub/main.tf", "sub/x.tf"].map(PathBuf::from));
    assert_eq!(std_fs::read_to_string(case.at("in/sub/main.tf")).expect("through the link"), "# root");
    let before = hash(&module).expect("hashed");
    module.write(Path::new("main.tf"), b"# other").expect("written");
    assert_ne!(hash(&module).expect("hashed"), before);
    for (name, target) in [("tok", "/etc/passwd"), ("sub/tok", "../../out/token"), ("up", "..")] {
        symlink(target, case.at("module").join(name)).expect("linked");
        let error = copy_tree(&module, &case.dir).expect_err(name).to_string();
        assert!(error.contains("leads out of the module"), "{error}");
        hash(&module).expect_err(name);
        std_fs::remove_file(case.at("module").join(name)).expect("gone");
    }
    // By way of other links, in whatever order they are visited.
    for (other, name, target) in
        [("d", "x", "d/d/../../.."), ("z", "x", "z/z/.."), ("z", "sub/x", "../z/../out")]
    {
        symlink(".", case.at("module").join(other)).expect("linked");
        symlink(target, case.at("module").join(name)).expect("linked");
        let error = hash(&module).expect_err(target).to_string();
        assert!(error.contains("leads out of the module"), "{error}");
        std_fs::remove_file(case.at("module").join(name)).expect("gone");
        hash(&module).expect("a link to the module itself");
        std_fs::remove_file(case.at("module").join(other)).expect("gone");
    }
    symlink("loop", case.at("module/loop")).expect("linked");
    hash(&module).expect_err("without end");
    std_fs::remove_file(case.at("module/loop")).expect("gone");
    // Up from where a link leads, and not from where it lies.
    symlink("sub/deep", case.at("module/down")).expect("linked");
    std_fs::create_dir(case.at("module/sub/deep")).expect("a folder");
    symlink("down/../../main.tf", case.at("module/around")).expect("linked");
    hash(&module).expect("within");
    fs::mkfifoat(&module.0, "fifo", Mode::RUSR | Mode::WUSR).expect("a FIFO");
    copy_tree(&module, &case.dir).expect_err("no regular file");
    case.untouched();
}

#[test]
fn a_module_has_limits() {
    let case = Case::new();
    let module = Dir::make(&case.at("module")).expect("made");
    File::create(case.at("module/zero")).expect("a file").set_len(1 << 30).expect("long");
    let error = hash(&module).expect_err("too large").to_string();
    assert!(error.contains("larger than 256 MiB"), "{error}");
    std_fs::remove_file(case.at("module/zero")).expect("gone");
    module.make_below(&PathBuf::from(vec!["d"; 100].join("/"))).expect("deep");
    let error = hash(&module).expect_err("too deep").to_string();
    assert!(error.contains("folders deep"), "{error}");
}

proptest! {
    /// Whatever is done below the handle in whatever order, nothing beside it changes.
    #[test]
    fn nothing_beside_the_folder_is_ever_touched(
        steps in prop::collection::vec((0_u8..5, "(\\.\\./|/)?[abl](/[abl\\.]{1,2}){0,2}"), 1..24)
    ) {
        let case = Case::new();
        for (what, path) in &steps {
            let path = Path::new(path);
            // Errors are fine: leaving the folder is not.
            match what {
                0 => drop(case.dir.write(path, b"written")),
                1 => drop(case.dir.remove(path)),
                2 => drop(case.dir.make_below(path)),
                3 => if let Ok(Some(bytes)) = case.dir.read(path, 100) { prop_assert_eq!(bytes, b"written") },
                // The run's own doing.
                _ => {
                    let place = case.at("in").join(path);
                    let folder = place.parent().and_then(|folder| std_fs::canonicalize(folder).ok());
                    let own = std_fs::canonicalize(case.at("in")).expect("there");
                    if folder.is_some_and(|folder| folder.starts_with(own)) { drop(symlink(case.at("out"), place)) }
                }
            }
        }
        case.untouched();
    }
}

/// Runs something as the owner of its files, and nothing more: what is closed is closed to root, too.
pub(crate) fn without_capabilities(what: impl FnOnce() + Send) {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            set_capabilities(None, none).expect("given up");
            what();
        });
        thread.join().expect("done");
    });
}

#[test]
fn what_a_run_has_closed_is_opened_again() {
    without_capabilities(|| {
        for closed in [&["a/b/c"][..], &["a/b"], &["a"], &["a/b/c", "a/b", "a"]] {
            let case = Case::new();
            case.dir.write(Path::new("a/b/c"), b"x").expect("written");
            let close = || {
                for name in closed {
                    fs::chmod(case.at("in").join(name), Mode::empty()).expect("closed");
                }
            };
            close();
            assert_eq!(case.dir.read(Path::new("a/b/c"), 1).expect("read").as_deref(), Some(&b"x"[..]));
            close();
            assert!(case.dir.stamp(Path::new("a/b/c")).is_some(), "{closed:?}");
            close();
            case.dir.write(Path::new("a/b/c"), b"y").expect("written");
            close();
            case.dir.remove(Path::new("a/b/c")).expect("removed");
            assert!(case.dir.read(Path::new("a/b/c"), 1).expect("none").is_none());
        }
    });
}

#[test]
fn what_is_no_runs_is_left_closed() {
    without_capabilities(|| {
        let case = Case::new();
        case.dir.write(Path::new("own"), b"x").expect("written");
        let (out, link) = (case.at("out"), case.at("in/link"));
        let mode = std_fs::metadata(&out).expect("there").permissions();
        fs::chmod(&out, Mode::empty()).expect("closed");
        symlink(&out, &link).expect("linked");
        std_fs::hard_link(case.at("in/own"), case.at("in/other")).expect("linked");
        fs::chmod(case.at("in/own"), Mode::empty()).expect("closed");
        for name in ["link", "link/file", "own"] {
            case.dir.read(Path::new(name), 1).expect_err(name);
        }
        assert_eq!(fs::stat(&out).expect("there").st_mode & 0o777, 0, "a link is not followed");
        assert_eq!(fs::stat(case.at("in/own")).expect("there").st_mode & 0o777, 0, "it has another name");
        std_fs::set_permissions(&out, mode).expect("opened");
    });
}

/// A default ACL takes rights from all that is made in a folder, whatever mode that asks for.
#[test]
fn what_is_written_can_be_read_whatever_the_folder_says() {
    // Version 2; the owner, the group and others have no right.
    let entry = |tag: u8| [tag, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let nothing = [&[2, 0, 0, 0][..], &entry(1), &entry(4), &entry(0x20)].concat();
    without_capabilities(|| {
        let case = Case::new();
        case.dir.make_below(Path::new("a")).expect("made");
        let set =
            fs::setxattr(case.at("in/a"), "system.posix_acl_default", &nothing, fs::XattrFlags::empty());
        // Not every file system has them.
        if set.is_err() {
            return;
        }
        case.dir.write(Path::new("a/b/c"), b"x").expect("written");
        case.dir.write(Path::new("a/d"), b"y").expect("written");
        assert_eq!(std_fs::read(case.at("in/a/b/c")).expect("read"), b"x");
        assert_eq!(std_fs::read(case.at("in/a/d")).expect("read"), b"y");
    });
}
