package org.ep4j.io;

import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;

/**
 * A file that is not valid safetensors, or lacks a requested tensor. The message names the file,
 * the tensor and the reason.
 */
public final class SafetensorsException extends Ep4jException {
  private static final long serialVersionUID = 1L;

  /**
   * @param code stable code of the error
   * @param file the file
   * @param tensor name of the tensor, or null if the problem concerns no single tensor
   * @param problem what is wrong with the file
   */
  public SafetensorsException(
      ErrorCode code, String file, @Nullable String tensor, String problem) {
    super(code, file + (tensor == null ? "" : ": tensor '" + tensor + "'") + ": " + problem);
  }

  /**
   * @param file the file
   * @param tensor name of the tensor, or null if the problem concerns no single tensor
   * @param problem what is wrong with the file
   */
  public SafetensorsException(String file, @Nullable String tensor, String problem) {
    this(ErrorCode.SAFETENSORS_INVALID, file, tensor, problem);
  }
}
