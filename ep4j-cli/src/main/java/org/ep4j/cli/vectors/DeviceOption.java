package org.ep4j.cli.vectors;

import picocli.CommandLine.Option;

/** Which engine works. */
final class DeviceOption {
  @Option(
      names = "--device",
      defaultValue = "auto",
      paramLabel = "auto|host|cuda",
      description = "The engine; default ${DEFAULT-VALUE}: the best that can run here.")
  private String device = "auto";

  DeviceOption() {}

  String device() {
    return device;
  }
}
