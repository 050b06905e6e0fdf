package org.ep4j.cases;

import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsException;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The file of one rank of a case, in aligned native memory. Tensors live until {@link #close()}.
 */
public final class CaseFile implements AutoCloseable {
  private final String name;
  private final Arena arena;
  private final CaseMetadata metadata;
  private final Map<String, String> strings;
  private final Map<String, Tensor> tensors;

  private CaseFile(SafetensorsFile file, Map<String, String> given, Arena arena) {
    this.name = file.name();
    this.arena = arena;
    this.strings = CaseMetadata.completed(given, file.metadata());
    this.metadata = CaseMetadata.of(file, given);
    this.tensors = new LinkedHashMap<>();
    for (String tensor : file.names()) {
      tensors.put(tensor, SafetensorsFile.copyOf(file.tensor(tensor), arena));
    }
  }

  /**
   * Reads a whole file.
   *
   * @param given metadata strings for entries that the file lacks; others must be equal
   * @throws SafetensorsException if the file is not valid or not a case
   */
  static CaseFile read(Path path, Map<String, String> given) {
    Arena arena = Arena.ofShared();
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      return new CaseFile(file, given, arena);
    } catch (RuntimeException e) {
      arena.close();
      throw e;
    }
  }

  /** Path of the file, for messages. */
  public String name() {
    return name;
  }

  /** The metadata of the case. */
  public CaseMetadata metadata() {
    return metadata;
  }

  /** The metadata strings of the file, completed by those of the caller. */
  public Map<String, String> strings() {
    return Collections.unmodifiableMap(strings);
  }

  /** All tensors by name. */
  public Map<String, Tensor> tensors() {
    return Collections.unmodifiableMap(tensors);
  }

  /** The tensor, or null if the file has no tensor of that name. */
  public @Nullable Tensor find(String tensor) {
    return tensors.get(tensor);
  }

  /**
   * The tensor.
   *
   * @throws SafetensorsException if the file has no tensor of that name
   */
  public Tensor tensor(String tensor) {
    Tensor found = tensors.get(tensor);
    if (found == null) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCOMPLETE, name, tensor, "missing; the file holds " + tensors.keySet());
    }
    return found;
  }

  /** Frees the tensors. Idempotent. */
  @Override
  public void close() {
    if (arena.scope().isAlive()) {
      arena.close();
    }
  }
}
