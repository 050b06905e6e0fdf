package org.ep4j.cuda.jit;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.FileOwner;
import org.jspecify.annotations.Nullable;

/**
 * Cubins in a directory, shared by all processes of a user without locks. A file appears atomically
 * by a rename, is never changed, and contains its own hash; a reader deletes a damaged file, and
 * its kernel is compiled again. Reading a file updates its time of modification, so the oldest
 * files are the least recently used; they are deleted first when the directory exceeds its limit.
 * Disk errors are not thrown: an unusable cache costs time and is logged once.
 *
 * <p>The author of a cubin decides what runs on the GPU. So a directory is made for its user alone
 * (mode 0700), and one that belongs to another user or that others can write is not used; neither
 * is a file of another user, or a symbolic link. Root's directories and files count as the user's
 * own.
 */
public final class CubinCache {
  /** Environment variable with the directory; the default is {@code ~/.cache/ep4j/cubin}. */
  public static final String DIRECTORY_VARIABLE = "EP4J_CUDA_CACHE";

  /**
   * Environment variable with the size in MiB above which old files are deleted; the default is
   * 512.
   */
  public static final String SIZE_VARIABLE = "EP4J_CUDA_CACHE_MB";

  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");
  private static final long DEFAULT_MIB = 512;
  private static final String SUFFIX = ".cubin";
  private static final String TEMPORARY = ".tmp";
  private static final Pattern KEY = Pattern.compile("[0-9A-Za-z._-]+");

  /** Age after which temporary files are considered left over from a dead process. */
  private static final Duration ABANDONED = Duration.ofHours(1);

  /**
   * A cubin in the cache.
   *
   * @param key name of the file without its suffix
   * @param description description of the kernel
   * @param bytes size of the file
   * @param lastUsed time of the last read or write
   */
  public record Entry(String key, String description, long bytes, Instant lastUsed) {}

  private static final FileAttribute<?> FOR_THE_USER =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));

  private record Aged(Path file, long bytes, FileTime time) {}

  private final Path directory;
  private final long limitBytes;
  private final boolean partOfTheProgram;

  /** Whether the log has told why the directory is not used. */
  private final AtomicBoolean refusalLogged = new AtomicBoolean();

  /** A cache in {@code directory}, which is created on the first write. */
  public CubinCache(Path directory, long limitBytes) {
    this(directory, limitBytes, false);
  }

  private CubinCache(Path directory, long limitBytes, boolean partOfTheProgram) {
    this.directory = directory;
    this.limitBytes = limitBytes;
    this.partOfTheProgram = partOfTheProgram;
  }

  /** Cubins that were installed with the program, by whichever user: they are trusted as it is. */
  static CubinCache prebuilt(Path directory) {
    return new CubinCache(directory, Long.MAX_VALUE, true);
  }

  /** The cache that the environment selects. */
  public static CubinCache standard(Map<String, String> environment) {
    return new CubinCache(
        directory(environment), Math.multiplyExact(mebibytes(environment), 1L << 20));
  }

  private static Path directory(Map<String, String> environment) {
    String named = environment.getOrDefault(DIRECTORY_VARIABLE, "");
    if (!named.isEmpty()) {
      return Path.of(named);
    }
    String caches = environment.getOrDefault("XDG_CACHE_HOME", "");
    Path parent = caches.isEmpty() ? home(environment).resolve(".cache") : Path.of(caches);
    return parent.resolve("ep4j").resolve("cubin");
  }

  /**
   * The home directory. The JVM takes it from the user database, and reports {@code ?} for a user
   * without an entry there. A user without any home has no directory that others cannot write:
   * kernels are then compiled in each process, below a path that cannot be created.
   */
  private static Path home(Map<String, String> environment) {
    for (String home :
        List.of(System.getProperty("user.home", ""), environment.getOrDefault("HOME", ""))) {
      if (home.startsWith("/")) {
        return Path.of(home);
      }
    }
    return Path.of("/dev/null");
  }

  private static long mebibytes(Map<String, String> environment) {
    String value = environment.getOrDefault(SIZE_VARIABLE, "");
    if (value.isEmpty()) {
      return DEFAULT_MIB;
    }
    if (!value.matches("[0-9]{1,9}") || value.matches("0+")) {
      throw new InvalidArgumentException(
          ErrorCode.KERNEL_CACHE_SETTING,
          SIZE_VARIABLE,
          "'" + value + "'",
          "a number of MiB, at least 1",
          "unset it for the default, 512");
    }
    return Long.parseLong(value);
  }

  /**
   * Returns this cache, for a command about it. Jobs do not call this: without a cache they compile
   * in each process, with a warning.
   *
   * @throws InvalidArgumentException if something else than a directory has its path
   */
  public CubinCache requireDirectory() {
    if (Files.exists(directory) && !Files.isDirectory(directory)) {
      throw new InvalidArgumentException(
          ErrorCode.KERNEL_CACHE_SETTING,
          DIRECTORY_VARIABLE,
          "'" + directory + "'",
          "a directory",
          "name another path, or unset it for the default");
    }
    return this;
  }

  /** Directory of the cache. */
  public Path directory() {
    return directory;
  }

  /** Size above which old files are deleted. */
  public long limitBytes() {
    return limitBytes;
  }

  /** The cubin of a key; a damaged file is deleted and treated as missing. */
  public Optional<byte[]> get(String key) {
    Path file = file(key);
    CubinFile content = read(file);
    if (content == null) {
      return Optional.empty();
    }
    touch(file);
    return Optional.of(content.image());
  }

  /** The cubin of the last key in string order that starts with {@code prefix}. */
  public Optional<byte[]> getNewest(String prefix) {
    return files(SUFFIX).stream()
        .map(aged -> key(aged.file))
        .filter(key -> key.startsWith(prefix))
        .sorted(Comparator.reverseOrder())
        .flatMap(key -> get(key).stream())
        .findFirst();
  }

  /** Stores a cubin; then deletes old files if the cache exceeds its limit. */
  public void put(String key, String description, byte[] image) {
    Path file = file(key);
    try {
      Files.createDirectories(directory, FOR_THE_USER);
      if (!isTrusted()) {
        return;
      }
      Path temporary = Files.createTempFile(directory, key + "-", TEMPORARY);
      try {
        Files.write(temporary, new CubinFile(description, image).encode());
        Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE);
      } finally {
        Files.deleteIfExists(temporary);
      }
      evict(file);
    } catch (IOException e) {
      LOG.log(
          Level.WARNING,
          "The cubin cache cannot be written, so every process compiles its kernels: {0}"
              + " (set EP4J_CUDA_CACHE to a writable directory)",
          e.toString());
    }
  }

  /** Contents of the cache, most recently used first. Damaged files are deleted. */
  public List<Entry> list() {
    List<Entry> entries = new ArrayList<>();
    for (Aged aged : files(SUFFIX)) {
      CubinFile content = read(aged.file);
      if (content != null) {
        entries.add(
            new Entry(key(aged.file), content.description(), aged.bytes, aged.time.toInstant()));
      }
    }
    entries.sort(Comparator.comparing(Entry::lastUsed).reversed());
    return entries;
  }

  /** Deletes all files of the cache and returns the number of cubins. */
  public int clear() {
    int deleted = 0;
    for (Aged aged : files(SUFFIX)) {
      deleted += delete(aged.file) ? 1 : 0;
    }
    files(TEMPORARY).forEach(aged -> delete(aged.file));
    return deleted;
  }

  /** The file just written stays regardless of its size: its writer needs it. */
  private void evict(Path newest) {
    Instant abandoned = Instant.now().minus(ABANDONED);
    for (Aged aged : files(TEMPORARY)) {
      if (aged.time.toInstant().isBefore(abandoned)) {
        delete(aged.file);
      }
    }
    List<Aged> files = files(SUFFIX);
    long total = files.stream().mapToLong(Aged::bytes).sum();
    files.sort(Comparator.comparing(Aged::time));
    for (Aged aged : files) {
      if (total <= limitBytes) {
        return;
      }
      if (!aged.file.equals(newest) && delete(aged.file)) {
        total -= aged.bytes;
      }
    }
  }

  /** Whether only this user and root can have written what the directory holds. */
  private boolean isTrusted() throws IOException {
    if (partOfTheProgram) {
      return true;
    }
    // The directory itself may be reached through symbolic links, for example in a home directory.
    Path real = directory.toRealPath();
    boolean trusted = FileOwner.isOwnOrOfRoot(real) && !FileOwner.othersWrite(real);
    if (!trusted && refusalLogged.compareAndSet(false, true)) {
      LOG.log(
          Level.WARNING,
          "The cubin cache {0} is not used, because other users can write there: chmod go-w, or set"
              + " EP4J_CUDA_CACHE to a directory of this user",
          directory);
    }
    return trusted;
  }

  private @Nullable CubinFile read(Path file) {
    byte[] content;
    try {
      if (!isTrusted()) {
        return null;
      }
      if (!partOfTheProgram && !FileOwner.isOwnOrOfRoot(file)) {
        if (Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
          LOG.log(Level.WARNING, "Cubin {0} is not a file of this user: not used", file);
        }
        return null;
      }
      content = Files.readAllBytes(file);
    } catch (NoSuchFileException e) {
      return null;
    } catch (IOException e) {
      LOG.log(Level.WARNING, "Cubin {0} cannot be read: {1}", file, e);
      return null;
    }
    CubinFile decoded = CubinFile.decode(content);
    if (decoded == null) {
      LOG.log(
          Level.WARNING,
          "Cubin {0} is damaged ({1} bytes); deleted and compiled again",
          file,
          content.length);
      delete(file);
    }
    return decoded;
  }

  private Path file(String key) {
    if (!KEY.matcher(key).matches()) {
      throw new InvalidArgumentException(
          ErrorCode.KERNEL_CACHE_SETTING,
          "key",
          "'" + key + "'",
          "a file name",
          "use letters, digits, dot, hyphen and _");
    }
    return directory.resolve(key + SUFFIX);
  }

  private static String key(Path file) {
    String name = file.getFileName().toString();
    return name.substring(0, name.length() - SUFFIX.length());
  }

  /** Files with a suffix, except files that other processes delete meanwhile. */
  private List<Aged> files(String ending) {
    List<Aged> found = new ArrayList<>();
    if (!Files.isDirectory(directory)) {
      return found;
    }
    try (DirectoryStream<Path> stream = Files.newDirectoryStream(directory, "*" + ending)) {
      for (Path file : stream) {
        try {
          found.add(new Aged(file, Files.size(file), Files.getLastModifiedTime(file)));
        } catch (IOException e) {
          // Another process evicted it, or it is another user's: the files behind it still count.
        }
      }
    } catch (IOException | DirectoryIteratorException e) {
      LOG.log(Level.WARNING, "The cubin cache {0} cannot be listed: {1}", directory, e);
    }
    return found;
  }

  private static void touch(Path file) {
    try {
      Files.setLastModifiedTime(file, FileTime.from(Instant.now()));
    } catch (IOException e) {
      // Read-only or deleted meanwhile: the file only looks older than it is.
    }
  }

  private static boolean delete(Path file) {
    try {
      return Files.deleteIfExists(file);
    } catch (IOException e) {
      LOG.log(Level.WARNING, "Cubin {0} cannot be deleted: {1}", file, e);
      return false;
    }
  }
}
