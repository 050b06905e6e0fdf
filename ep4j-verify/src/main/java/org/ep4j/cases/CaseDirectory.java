package org.ep4j.cases;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A directory with {@code rank0.safetensors}, {@code rank1.safetensors} and so on: one case. Reads
 * the headers and the expert ids of all files, and checks that they fit together.
 */
public final class CaseDirectory {
  private static final Pattern RANK_FILE = Pattern.compile("rank(\\d{1,9})\\.safetensors");

  private final Path path;
  private final List<Path> files;
  private final Map<String, String> given;
  private final CaseMetadata metadata;
  private final int maxTokens;
  private final DType widestRow;

  private CaseDirectory(Path path, List<Path> files, Map<String, String> given) {
    this.path = path;
    this.files = files;
    this.given = Map.copyOf(given);
    CaseMetadata first = null;
    long tokens = 0;
    DType widest = DType.BF16;
    CaseInputs inputs = new CaseInputs(files.size());
    for (Path file : files) {
      try (SafetensorsFile header = SafetensorsFile.open(file)) {
        CaseMetadata own = CaseMetadata.of(header, given);
        checkRanks(header.name(), own);
        first = first == null ? own : agreed(header.name(), first, own);
        tokens = Math.max(tokens, header.tensor("x").size(0));
        widest = wider(widest, header.tensor("x"), header.find("expert_out"));
        inputs.add(header, own);
      }
    }
    inputs.finish();
    this.metadata = Objects.requireNonNull(first, "a directory has a file");
    this.maxTokens = Math.toIntExact(tokens);
    this.widestRow = widest;
    checkConfig();
  }

  /** Refuses a case that no buffer can run, with the name of the case. */
  private void checkConfig() {
    try {
      ExpertBuffer.sizes(config().build(), files.size());
    } catch (InvalidArgumentException e) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT, path.toString(), null, CaseInputs.withoutCode(e));
    }
  }

  /** Opens a directory whose files have all metadata. */
  public static CaseDirectory open(Path path) {
    return open(path, Map.of());
  }

  /**
   * Opens a directory.
   *
   * @param given metadata strings for entries that a file lacks, for example {@code experts};
   *     entries that a file has must be equal
   * @throws SafetensorsException if the directory does not exist, the file of a rank is missing, or
   *     files are invalid or contradict each other
   * @throws UncheckedIOException if the directory cannot be read
   */
  public static CaseDirectory open(Path path, Map<String, String> given) {
    if (!Files.isDirectory(path)) {
      throw new SafetensorsException(
          ErrorCode.NO_CASE,
          path.toString(),
          null,
          Files.exists(path)
              ? "is a file: name its directory"
              : "does not exist: name the directory of rank0.safetensors, rank1.safetensors, ...");
    }
    TreeMap<Integer, Path> files = new TreeMap<>();
    try (Stream<Path> entries = Files.list(path)) {
      for (Path entry : (Iterable<Path>) entries::iterator) {
        Matcher matcher = RANK_FILE.matcher(String.valueOf(entry.getFileName()));
        if (matcher.matches()) {
          files.put(Integer.parseInt(matcher.group(1)), entry);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(path + ": cannot be listed: " + FileProblem.of(e), e);
    }
    if (files.isEmpty()) {
      throw new SafetensorsException(
          ErrorCode.NO_CASE,
          path.toString(),
          null,
          "holds no rank0.safetensors, rank1.safetensors, ...");
    }
    for (int rank = 0; rank < files.size(); rank++) {
      if (!files.containsKey(rank)) {
        throw new SafetensorsException(
            ErrorCode.CASE_INCOMPLETE,
            path.toString(),
            null,
            "rank" + rank + ".safetensors is missing; there are files of ranks " + files.keySet());
      }
    }
    return new CaseDirectory(path, new ArrayList<>(files.values()), given);
  }

  /** Whether a directory holds the file of rank 0. */
  public static boolean isCase(Path path) {
    return Files.isRegularFile(path.resolve("rank0.safetensors"));
  }

  /** The directory. */
  public Path path() {
    return path;
  }

  /** Number of ranks. */
  public int ranks() {
    return files.size();
  }

  /** The metadata; the same in all files. */
  public CaseMetadata metadata() {
    return metadata;
  }

  /** The buffer configuration of the case, on every rank. */
  public BufferConfig.Builder config() {
    BufferConfig.Builder config =
        BufferConfig.builder()
            .hidden(metadata.hidden())
            .topK(metadata.topK())
            .experts(metadata.experts());
    if (metadata.lowLatency()) {
      return config.lowLatency(Math.max(metadata.maxTokens(), Math.max(1, maxTokens)));
    }
    HighThroughputConfig.Builder highThroughput =
        HighThroughputConfig.builder()
            .maxTokens(Math.max(1, maxTokens))
            .rowDType(widestRow)
            .expertAlignment(metadata.expertAlignment());
    return config.highThroughput(
        metadata.byExperts()
            // GPUs sum in this order what peers can read.
            ? highThroughput.layouts(Layout.EXPERT_MAJOR).combineInPlace(true).build()
            : highThroughput.layouts(Layout.FLAT, Layout.EXPERT_MAJOR).build());
  }

  /** Reads the file of a rank. */
  public CaseFile read(int rank) {
    return CaseFile.read(files.get(rank), given);
  }

  private void checkRanks(String file, CaseMetadata own) {
    if (own.ranks() != 0 && own.ranks() != files.size()) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT,
          file,
          null,
          "metadata ranks is "
              + own.ranks()
              + ", but the directory has "
              + files.size()
              + " files");
    }
  }

  private static CaseMetadata agreed(String file, CaseMetadata first, CaseMetadata own) {
    if (!own.equals(first)) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT, file, null, "contradicts rank 0: " + own.differences(first));
    }
    return first;
  }

  private static DType wider(DType widest, Tensor x, @Nullable Tensor y) {
    DType result = x.dtype().bits() > widest.bits() ? x.dtype() : widest;
    return y != null && y.dtype().bits() > result.bits() ? y.dtype() : result;
  }
}
