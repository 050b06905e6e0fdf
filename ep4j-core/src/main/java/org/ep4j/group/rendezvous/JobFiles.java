package org.ep4j.group.rendezvous;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardOpenOption.CREATE_NEW;
import static java.nio.file.StandardOpenOption.WRITE;

import java.io.IOException;
import java.io.Reader;
import java.io.Writer;
import java.net.InetSocketAddress;
import java.nio.channels.Channels;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Files by which programs of a user find the jobs of this user on this host. The process that hosts
 * a rendezvous writes a file, and deletes it when the rendezvous admits no more observers. After
 * {@code kill -9} the next writer or reader of the user deletes it. Any thread may call.
 *
 * <p>A file holds the secret of its job. So its mode is 0600, and it lies in a directory that no
 * other user may read or write. Reader and writer check owner and mode of the directory, and follow
 * no symbolic link there.
 *
 * <p>A file appears whole, by a rename. Its name holds the process and the time at which that
 * process has started: a reader ignores and deletes the files of processes that have ended. It
 * leaves files of containers alone whose processes it cannot see.
 */
public final class JobFiles {
  /** Variable that turns files off. */
  private static final String SWITCH = "EP4J_JOB_FILES";

  /** Any other value turns files off: a misspelled one must not publish the secret. */
  private static final Set<String> ON = Set.of("", "1", "true");

  /** Namespace of processes, process, its start, number of the file. */
  private static final Pattern NAME = Pattern.compile("(\\d+)-(\\d+)-(\\d+)-\\d+\\.(job|new)");

  /** The directory may vanish with the last file of another job before this one writes its own. */
  private static final int ATTEMPTS = 5;

  private static final Path SELF = Path.of("/proc/self");

  /** Type of a file, and the permissions of group and others. */
  private static final int TYPE_AND_OTHERS = 0170077;

  private static final int PRIVATE_DIRECTORY = 0040000;
  private static final int PRIVATE_FILE = 0100000;
  private static final System.Logger LOG = System.getLogger("org.ep4j.group");
  private static final AtomicLong NUMBER = new AtomicLong();

  private JobFiles() {}

  /**
   * A job that runs on this host.
   *
   * @param rendezvous HOST:PORT, as its ranks name it
   * @param address at which processes of this host reach the rendezvous
   * @param secret of the job
   * @param name of the job, empty if it has none
   * @param description job, number of ranks and process of the rendezvous
   */
  public record Job(
      String rendezvous,
      InetSocketAddress address,
      String secret,
      String name,
      String description) {
    /** All but the secret. */
    @Override
    public String toString() {
      return rendezvous + " (" + description + ")";
    }
  }

  /**
   * Writes the file of a rendezvous of this process.
   *
   * @param host by which its ranks name it
   * @param secret of the job
   * @param address at which processes of this host reach it
   * @return the file; null if files are turned off or the directory cannot be used
   */
  static @Nullable Path write(
      Map<String, String> environment,
      String host,
      String secret,
      GroupPlan plan,
      InetSocketAddress address) {
    if (!ON.contains(environment.getOrDefault(SWITCH, "").strip())) {
      return null;
    }
    try {
      String user = effectiveUser();
      Path directory = directory(environment, user);
      Properties job = new Properties();
      job.setProperty("host", host);
      job.setProperty("port", Integer.toString(address.getPort()));
      job.setProperty("address", address.getAddress().getHostAddress());
      job.setProperty("ranks", Integer.toString(plan.ranks()));
      job.setProperty("job", plan.jobId());
      job.setProperty("name", plan.job());
      job.setProperty("secret", secret);
      for (int attempt = 1; ; attempt++) {
        try {
          return write(directory, user, job);
        } catch (NoSuchFileException e) {
          if (attempt == ATTEMPTS) {
            throw e;
          }
        }
      }
    } catch (IOException | RuntimeException e) {
      // The job runs without it.
      LOG.log(
          System.Logger.Level.DEBUG,
          "ep4j: no file tells top of job {0}, so name its rendezvous: {1}",
          plan.jobId(),
          e);
      return null;
    }
  }

  private static Path write(Path directory, String user, Properties job) throws IOException {
    try {
      Files.createDirectory(
          directory,
          PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    } catch (FileAlreadyExistsException e) {
      // Another job of the user has made it, or another user has: checked below.
    }
    if (!isOwn(directory, user, PRIVATE_DIRECTORY)) {
      throw new IOException(directory + " is not a directory of this user with mode 0700");
    }
    sweep(directory);
    String pid = Long.toString(ProcessHandle.current().pid());
    String name = namespace() + "-" + pid + "-" + start(pid) + "-" + NUMBER.getAndIncrement();
    Path fresh = directory.resolve(name + ".new");
    Path file = directory.resolve(name + ".job");
    try {
      try (Writer writer =
          Channels.newWriter(
              Files.newByteChannel(
                  fresh,
                  Set.of(CREATE_NEW, WRITE),
                  PosixFilePermissions.asFileAttribute(
                      PosixFilePermissions.fromString("rw-------"))),
              UTF_8)) {
        job.store(writer, null);
      }
      return Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      delete(fresh);
    }
  }

  /** Deletes a file, and the directory with its last file; has no effect if they are gone. */
  static void delete(@Nullable Path file) {
    try {
      if (file != null) {
        Files.deleteIfExists(file);
        Files.deleteIfExists(file.resolveSibling(""));
      }
    } catch (DirectoryNotEmptyException e) {
      // Another job has files there.
    } catch (IOException e) {
      LOG.log(System.Logger.Level.DEBUG, "ep4j: {0} is not deleted: {1}", file, e);
    }
  }

  /**
   * Finds the jobs of this user whose rendezvous is on this host.
   *
   * @param environment names the directory of shared memory
   */
  public static List<Job> find(Map<String, String> environment) {
    List<Job> jobs = new ArrayList<>();
    try {
      String user = effectiveUser();
      Path directory = directory(environment, user);
      if (!isOwn(directory, user, PRIVATE_DIRECTORY)) {
        return jobs;
      }
      for (Path file : sweep(directory)) {
        Job job = isOwn(file, user, PRIVATE_FILE) ? read(file) : null;
        if (job != null) {
          jobs.add(job);
        }
      }
    } catch (IOException | RuntimeException e) {
      LOG.log(System.Logger.Level.DEBUG, "ep4j: files of jobs cannot be read: {0}", e);
    }
    return jobs;
  }

  private static @Nullable Job read(Path file) {
    Properties job = new Properties();
    try (Reader reader = Files.newBufferedReader(file)) {
      job.load(reader);
      String host = required(job, "host");
      int port = Integer.parseInt(required(job, "port"));
      String name = required(job, "name");
      return new Job(
          HostNames.bracketed(host) + ":" + port,
          new InetSocketAddress(required(job, "address"), port),
          required(job, "secret"),
          name,
          "job %s%s, %s ranks, process %s"
              .formatted(
                  required(job, "job"),
                  name.isEmpty() ? "" : " '" + name + "'",
                  required(job, "ranks"),
                  file.getFileName().toString().split("-", -1)[1]));
    } catch (IOException | IllegalArgumentException e) {
      // Its process has ended since, or another version of ep4j has written it.
      return null;
    }
  }

  private static String required(Properties job, String key) {
    String value = job.getProperty(key);
    if (value == null) {
      throw new IllegalArgumentException("no " + key);
    }
    return value;
  }

  private static Path directory(Map<String, String> environment, String user) {
    String shared = environment.getOrDefault("EP4J_SHM_DIR", "");
    return Path.of(shared.isBlank() ? "/dev/shm" : shared).resolve("ep4j-" + user);
  }

  private static boolean isOwn(Path name, String user, int type) throws IOException {
    try {
      int mode = (int) Files.getAttribute(name, "unix:mode", LinkOption.NOFOLLOW_LINKS);
      return (mode & TYPE_AND_OTHERS) == type && isOwner(name, user);
    } catch (NoSuchFileException e) {
      return false;
    }
  }

  private static boolean isOwner(Path name, String user) throws IOException {
    return user.equals(
        String.valueOf(Files.getAttribute(name, "unix:uid", LinkOption.NOFOLLOW_LINKS)));
  }

  /** Deletes the files of processes that have ended. Returns those of live ones. */
  private static List<Path> sweep(Path directory) throws IOException {
    String here = namespace();
    List<Path> live = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(directory)) {
      for (Path file : all) {
        Matcher name = name(file);
        if (!name.matches() || !name.group(1).equals(here)) {
          continue;
        }
        if (!name.group(3).equals(start(name.group(2)))) {
          delete(file);
        } else if (name.group(4).equals("job")) {
          live.add(file);
        }
      }
    } catch (NoSuchFileException e) {
      // Another job has deleted its last file, and the directory with it.
      return live;
    }
    return live;
  }

  private static Matcher name(Path file) {
    return NAME.matcher(String.valueOf(file.getFileName()));
  }

  /** The effective user of this process. The owner of /proc/self may be another. */
  private static String effectiveUser() throws IOException {
    for (String line : Files.readAllLines(SELF.resolve("status"), ISO_8859_1)) {
      if (line.startsWith("Uid:")) {
        return line.split("\t", -1)[2];
      }
    }
    throw new IOException("/proc/self/status names no user");
  }

  /** Identifies the processes among which numbers of processes are unique. */
  private static String namespace() throws IOException {
    return Files.readSymbolicLink(SELF.resolve("ns/pid")).toString().replaceAll("\\D", "");
  }

  /** When a process has started, in ticks since the system has; empty if it has ended. */
  private static String start(String pid) {
    try {
      String text = Files.readString(Path.of("/proc", pid, "stat"), ISO_8859_1);
      // Behind the name of the program, which may hold anything: state, then 18 others.
      String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ", -1);
      return fields[0].equals("Z") || fields[0].equals("X") ? "" : fields[19];
    } catch (IOException e) {
      return "";
    }
  }
}
