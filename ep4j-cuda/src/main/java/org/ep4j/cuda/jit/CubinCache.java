package org.ep4j.cuda.jit;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import org.ep4j.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Cubins in a directory, for all processes of a user at once and without locks. A file appears
 * whole by a rename, is never changed, and carries its own hash; whoever finds a file that is not
 * what was written deletes it, and its kernel is compiled again. Reading a file sets its time of
 * modification, so the oldest files are those longest unused, and they go first when the directory
 * grows too large. Nothing here throws because of the disk: a cache that cannot be used costs time,
 * said once.
 */
public final class CubinCache {
  /** Names the directory; the default is {@code ~/.cache/ep4j/cubin}. */
  public static final String DIRECTORY_VARIABLE = "EP4J_CUDA_CACHE";

  /** Size in MiB at which old files go; the default is 512. */
  public static final String SIZE_VARIABLE = "EP4J_CUDA_CACHE_MB";

  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");
  private static final long DEFAULT_MIB = 512;
  private static final String SUFFIX = ".cubin";
  private static final String TEMPORARY = ".tmp";
  private static final Pattern KEY = Pattern.compile("[0-9A-Za-z._-]+");

  /** Left by a process that died while it wrote. */
  private static final Duration ABANDONED = Duration.ofHours(1);

  /**
   * A cubin in the cache.
   *
   * @param key name of the file without its ending
   * @param description of what was compiled
   * @param bytes size of the file
   * @param lastUsed when it was last read or written
   */
  public record Entry(String key, String description, long bytes, Instant lastUsed) {}

  private record Aged(Path file, long bytes, FileTime time) {}

  private final Path directory;
  private final long limitBytes;

  /** A cache in {@code directory}, which is created when something is put there. */
  public CubinCache(Path directory, long limitBytes) {
    this.directory = directory;
    this.limitBytes = limitBytes;
  }

  /** The cache that the environment names. */
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
    Path parent =
        caches.isEmpty() ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(caches);
    return parent.resolve("ep4j").resolve("cubin");
  }

  private static long mebibytes(Map<String, String> environment) {
    String value = environment.getOrDefault(SIZE_VARIABLE, "");
    if (value.isEmpty()) {
      return DEFAULT_MIB;
    }
    if (!value.matches("[0-9]{1,9}") || value.matches("0+")) {
      throw new InvalidArgumentException(
          SIZE_VARIABLE, "'" + value + "'", "a number of MiB, at least 1", "512 is the default");
    }
    return Long.parseLong(value);
  }

  /** Where it is. */
  public Path directory() {
    return directory;
  }

  /** Size at which old files go. */
  public long limitBytes() {
    return limitBytes;
  }

  /** The cubin of a key; a file that is damaged is deleted and reported as absent. */
  public Optional<byte[]> get(String key) {
    Path file = file(key);
    CubinFile content = read(file);
    if (content == null) {
      return Optional.empty();
    }
    touch(file);
    return Optional.of(content.image());
  }

  /** The cubin of the last key, in the order of text, that starts with {@code prefix}. */
  public Optional<byte[]> getNewest(String prefix) {
    return files(SUFFIX).stream()
        .map(aged -> key(aged.file))
        .filter(key -> key.startsWith(prefix))
        .sorted(Comparator.reverseOrder())
        .flatMap(key -> get(key).stream())
        .findFirst();
  }

  /** Keeps a cubin for later; then old files go if the cache is too large. */
  public void put(String key, String description, byte[] image) {
    Path file = file(key);
    try {
      Files.createDirectories(directory);
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
          "The cubin cache cannot be written, so that every process compiles its kernels: {0}"
              + " (set EP4J_CUDA_CACHE to a directory that can)",
          e.toString());
    }
  }

  /** What the cache holds, last used first. Damaged files are deleted. */
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

  /** Deletes all files of the cache and returns how many cubins that were. */
  public int clear() {
    int deleted = 0;
    for (Aged aged : files(SUFFIX)) {
      deleted += delete(aged.file) ? 1 : 0;
    }
    files(TEMPORARY).forEach(aged -> delete(aged.file));
    return deleted;
  }

  /** The file just written stays, however large it is: somebody waits for it. */
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

  private @Nullable CubinFile read(Path file) {
    byte[] content;
    try {
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
          "Cubin {0} is damaged ({1} bytes); deleted, to be compiled again",
          file,
          content.length);
      delete(file);
    }
    return decoded;
  }

  private Path file(String key) {
    if (!KEY.matcher(key).matches()) {
      throw new IllegalArgumentException("'" + key + "' cannot be the name of a file");
    }
    return directory.resolve(key + SUFFIX);
  }

  private static String key(Path file) {
    String name = file.getFileName().toString();
    return name.substring(0, name.length() - SUFFIX.length());
  }

  /** Files with an ending; those that others delete meanwhile are left out. */
  private List<Aged> files(String ending) {
    List<Aged> found = new ArrayList<>();
    if (!Files.isDirectory(directory)) {
      return found;
    }
    try (DirectoryStream<Path> stream = Files.newDirectoryStream(directory, "*" + ending)) {
      for (Path file : stream) {
        try {
          found.add(new Aged(file, Files.size(file), Files.getLastModifiedTime(file)));
        } catch (NoSuchFileException e) {
          // Another process evicted it.
        }
      }
    } catch (IOException e) {
      LOG.log(Level.WARNING, "The cubin cache {0} cannot be listed: {1}", directory, e);
    }
    return found;
  }

  private static void touch(Path file) {
    try {
      Files.setLastModifiedTime(file, FileTime.from(Instant.now()));
    } catch (IOException e) {
      // Read-only, or gone meanwhile: it only looks older than it is.
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
