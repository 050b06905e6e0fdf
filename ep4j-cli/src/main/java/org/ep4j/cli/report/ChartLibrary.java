package org.ep4j.cli.report;

import java.io.IOException;
import java.io.InputStream;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

/**
 * The program D3, which draws charts in a browser, from its jar.
 *
 * @param version its version
 * @param program its text
 * @param licence its licence, which asks to stand in every copy
 */
record ChartLibrary(String version, String program, String licence) {
  private static final String COORDINATES = "META-INF/maven/org.webjars.npm/d3/pom.properties";

  /** Reads the library. */
  static ChartLibrary load() {
    try {
      Properties coordinates = new Properties();
      coordinates.load(new StringReader(text(COORDINATES)));
      String version = coordinates.getProperty("version");
      String directory = "META-INF/resources/webjars/d3/" + version + "/";
      return new ChartLibrary(
          version, text(directory + "dist/d3.min.js"), text(directory + "LICENSE"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String text(String resource) throws IOException {
    try (InputStream in = ChartLibrary.class.getClassLoader().getResourceAsStream(resource)) {
      if (in == null) {
        throw new AssertionError("the jar of D3 is missing, or lacks " + resource);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
