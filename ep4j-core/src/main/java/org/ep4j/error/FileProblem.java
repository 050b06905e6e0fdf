package org.ep4j.error;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;

/** What keeps a program from a file, in words: the JDK names a class of exceptions and the path. */
public final class FileProblem {
  private FileProblem() {}

  /** The problem and, where it is known, what to do; without the path. */
  public static String of(IOException failure) {
    return switch (failure) {
      case NoSuchFileException _ -> "there is no such file or directory: check the path";
      case AccessDeniedException _ -> "permission denied: check the owner and the permissions";
      case NotDirectoryException _ -> "it is no directory: check the path";
      case FileSystemException named when named.getReason() != null -> named.getReason();
      default -> {
        String message = failure.getMessage();
        yield message == null ? failure.getClass().getSimpleName() : message;
      }
    };
  }
}
