package org.ep4j.memory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;

/** Owners of files in places where several users write. Any thread may call. */
public final class FileOwner {
  private static final int ROOT = 0;

  /** Permission of group and others to write. */
  private static final int OTHERS_WRITE = 0022;

  private FileOwner() {}

  /**
   * Whether a name is that of a regular file or directory of this user: no symbolic link, no
   * device, no pipe. False if it is gone.
   */
  public static boolean isOwn(Path name) {
    return isOf(name, Libc.effectiveUser());
  }

  /** As {@link #isOwn}, and also of root: root can change the files of this user anyway. */
  public static boolean isOwnOrOfRoot(Path name) {
    return isOwn(name) || isOf(name, ROOT);
  }

  private static boolean isOf(Path name, int user) {
    try {
      return attribute(name, "uid") == user
          && (Files.isRegularFile(name, LinkOption.NOFOLLOW_LINKS)
              || Files.isDirectory(name, LinkOption.NOFOLLOW_LINKS));
    } catch (IOException e) {
      return false;
    }
  }

  /** Whether other users may write a file, or make files in a directory. */
  public static boolean othersWrite(Path name) throws IOException {
    return (attribute(name, "mode") & OTHERS_WRITE) != 0;
  }

  private static int attribute(Path name, String attribute) throws IOException {
    return (int) Files.getAttribute(name, "unix:" + attribute, LinkOption.NOFOLLOW_LINKS);
  }
}
