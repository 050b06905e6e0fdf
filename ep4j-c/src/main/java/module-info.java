/** The C interface: functions that programs without Java call through a table of addresses. */
module org.ep4j.c {
  requires org.ep4j;
  requires static org.jspecify;

  exports org.ep4j.c;
}
