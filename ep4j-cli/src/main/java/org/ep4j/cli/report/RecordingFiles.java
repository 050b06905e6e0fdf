package org.ep4j.cli.report;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;

/**
 * Reads the events of ep4j from files of the flight recorder. The file may come from anywhere, and
 * may have been cut: its chunks are checked before the parser of the JDK sees it.
 *
 * <p>A file is a sequence of chunks; a chunk begins with a magic number, two 16-bit numbers of its
 * version, and its size as a 64-bit number, all in the byte order of the network.
 */
final class RecordingFiles {
  private static final byte[] MAGIC = {'F', 'L', 'R', 0};
  private static final String SUFFIX = ".jfr";
  private static final int SIZE_AT = 8;
  private static final int HEADER_BYTES = 68;
  private static final String PREFIX = "org.ep4j.";

  private RecordingFiles() {}

  /** Whether a file is to be read as a recording: by its first bytes, or else by its name. */
  static boolean isRecording(Path file) {
    return file.toString().endsWith(SUFFIX) || Arrays.equals(firstBytes(file), MAGIC);
  }

  private static byte[] firstBytes(Path file) {
    if (!Files.isRegularFile(file)) {
      return new byte[0];
    }
    try (DataInputStream in = new DataInputStream(Files.newInputStream(file))) {
      return in.readNBytes(MAGIC.length);
    } catch (IOException e) {
      throw unreadable(file, e);
    }
  }

  /** The events of these files. */
  static RecordedJob read(List<Path> files) {
    RecordedJob.Builder job = new RecordedJob.Builder();
    for (Path file : files) {
      read(file, job);
    }
    return job.build();
  }

  private static void read(Path file, RecordedJob.Builder job) {
    checkChunks(file);
    job.begin(Fields.printable(file.toString()));
    boolean any = false;
    try (RecordingFile recording = new RecordingFile(file)) {
      while (recording.hasMoreEvents()) {
        RecordedEvent event = recording.readEvent();
        any |= event.getEventType().getName().startsWith(PREFIX) && job.add(event);
      }
    } catch (IOException | RuntimeException | VirtualMachineError e) {
      // The JDK's parser takes bytes for lengths and kinds: InternalError, or too large arrays.
      if (e instanceof CommandFailure failure) {
        throw failure;
      }
      throw invalid(file, "its events cannot be read (" + Fields.printable(e.toString()) + ")");
    }
    if (!any) {
      throw new CommandFailure(
          ErrorCode.RECORDING_WITHOUT_EVENTS,
          ExitCodes.FAILED,
          "%s holds no events of ep4j: record a rank of a program that calls ep4j, with operations of less than 10 ms by +org.ep4j.Operation#threshold=0ms"
              .formatted(Fields.printable(file.toString())));
    }
  }

  private static void checkChunks(Path file) {
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw invalid(file, "it is no regular file");
    }
    try (FileChannel channel = FileChannel.open(file)) {
      long length = channel.size();
      if (length == 0) {
        throw invalid(file, "it is empty");
      }
      for (long at = 0; at < length; ) {
        ByteBuffer header = ByteBuffer.allocate((int) Math.min(HEADER_BYTES, length - at));
        channel.read(header, at);
        byte[] magic = Arrays.copyOf(header.array(), MAGIC.length);
        if (!Arrays.equals(magic, MAGIC)) {
          throw invalid(
              file,
              at == 0
                  ? "it does not begin as one"
                  : "byte %d of %d begins no chunk of one".formatted(at, length));
        }
        long size = header.capacity() < HEADER_BYTES ? 0 : header.getLong(SIZE_AT);
        if (size < HEADER_BYTES || size > length - at) {
          throw invalid(
              file,
              "it ends inside the chunk at byte %d: it was cut, or the JVM still writes it"
                  .formatted(at));
        }
        at += size;
      }
    } catch (IOException e) {
      throw unreadable(file, e);
    }
  }

  private static UncheckedIOException unreadable(Path file, IOException e) {
    return new UncheckedIOException(
        ErrorCode.FILE_READ.message(file + ": cannot be read: " + FileProblem.of(e)), e);
  }

  private static CommandFailure invalid(Path file, String reason) {
    return new CommandFailure(
        ErrorCode.RECORDING_INVALID,
        ExitCodes.FAILED,
        "%s is no whole recording of the flight recorder: %s; let the program end, or call jcmd PID JFR.dump, and copy the file whole"
            .formatted(Fields.printable(file.toString()), reason));
  }

  /** The names of all files, for a heading. */
  static String names(List<Path> files) {
    List<String> names = new ArrayList<>();
    files.forEach(file -> names.add(Fields.printable(file.toString())));
    return String.join(", ", names);
  }
}
