package org.ep4j.conformance;

class HostKillTest extends KillKit {
  @Override
  protected String engine() {
    return "host";
  }
}
